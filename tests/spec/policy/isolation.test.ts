import { describe, expect, test } from 'bun:test'
import {
  type CustomerName,
  type NodeName,
  type Outcome,
  type PathRules,
  startPromptPaths,
} from '../../support/leaks/prompt-paths.ts'
import { fixture } from '../../support/run/fixture.ts'

const paths = await fixture(startPromptPaths())

const say = (min: string) => ({ min_privacy_class: min })
const open = { account: say('public'), key: say('public') }
const trusting = { account: say('trusted'), key: say('trusted') }
const tiers = (...names: string[]) => ({ route_tiers: names })
const deny = (...models: string[]) => ({ denied_models: models })
const allow = (...models: string[]) => ({ allowed_models: models })
const unknownNode = 'node_00000000000000000000000000'

type Row = readonly [name: string, as: CustomerName, model: string, rules: PathRules, to: Outcome]

function rows(title: string, table: readonly Row[]): void {
  describe(title, () => {
    test.each(table.map((row) => [...row] as const))('%s', async (_name, as, model, rules, to) => {
      await paths.expectPath(as, model, rules, to)
    })
  })
}

rows('§8: own machines, whatever their visibility and class', [
  ['by default', 'A', 'shared', {}, ['aHome', 'aOpen']],
  ['by default, the other customer', 'B', 'shared', {}, ['bHome', 'bOpen', 'bTrusted']],
  ['first, where others would be allowed', 'A', 'shared', open, ['aHome', 'aOpen']],
  ['first, the other customer', 'B', 'shared', open, ['bHome', 'bOpen', 'bTrusted']],
  ['a private one under the strictest class', 'A', 'a-home', { account: say('private') }, ['aHome']],
  ['one of class public under the strictest class', 'A', 'a-open', { key: say('private') }, ['aOpen']],
])

rows('§8: machines of others', [
  ['a private one', 'A', 'b-only', {}, 'model_not_found'],
  ['a private one, all allowed', 'A', 'b-only', open, 'model_not_found'],
  ['a private one, the other way round', 'B', 'a-home', open, 'model_not_found'],
  ['a private one, for who owns nothing', 'C', 'a-home', open, 'model_not_found'],
  ['of one owner a private and a public one: the public', 'C', 'a-only', open, ['aOpen']],
  ['all public ones', 'C', 'shared', open, ['aOpen', 'bOpen', 'bTrusted']],
  ['those of the class', 'C', 'shared', trusting, ['bTrusted']],
  ['none, by default', 'C', 'shared', {}, 'privacy_class_not_allowed'],
  ['one, allowed', 'B', 'a-open', open, ['aOpen']],
  ['one, allowed by the account alone', 'B', 'a-open', { account: say('public') }, 'privacy_class_not_allowed'],
  ['one, allowed by the key alone', 'B', 'a-open', { key: say('public') }, 'privacy_class_not_allowed'],
])

rows('§4, §8: node scope', [
  ['of the key', 'A', 'shared', { keyScope: ['aHome'] }, ['aHome']],
  ['of the account', 'A', 'shared', { accountScope: ['aOpen'] }, ['aOpen']],
  ['of both', 'A', 'shared', { accountScope: ['aHome', 'aOpen'], keyScope: ['aOpen', 'bOpen'], ...open }, ['aOpen']],
  ['of both, nothing shared', 'A', 'shared', { accountScope: ['aHome'], keyScope: ['aOpen'] }, 'model_not_found'],
  ['empty', 'A', 'shared', { keyScope: [] }, 'model_not_found'],
  ['without the model', 'A', 'a-open', { keyScope: ['aHome'] }, 'model_not_found'],
  ['a private machine of others', 'A', 'shared', { keyScope: ['bHome'], ...open }, 'model_not_found'],
  ['a public one of others', 'A', 'shared', { keyScope: ['bOpen'] }, 'privacy_class_not_allowed'],
  ['a public one of others, allowed', 'A', 'shared', { keyScope: ['bOpen'], ...open }, ['bOpen']],
  ['among others', 'C', 'shared', { accountScope: ['aOpen', 'bHome'], ...open }, ['aOpen']],
])

rows('§5: pins', [
  ['own', 'A', 'shared', { pin: 'aOpen' }, ['aOpen']],
  ['own, beside others allowed', 'A', 'shared', { pin: 'aHome', ...open }, ['aHome']],
  ['a private machine of others', 'A', 'shared', { pin: 'bHome' }, 'node_pin_forbidden'],
  ['a public one of others, allowed', 'A', 'b-open', { pin: 'bOpen', ...open }, 'node_pin_forbidden'],
  ['unknown', 'A', 'shared', { pin: unknownNode }, 'node_pin_forbidden'],
  ['by who owns nothing', 'C', 'shared', { pin: 'aOpen', ...open }, 'node_pin_forbidden'],
  ['outside the scope', 'A', 'shared', { pin: 'aOpen', keyScope: ['aHome'] }, 'node_pin_forbidden'],
  ['without the model, which others have', 'A', 'b-open', { pin: 'aHome', ...open }, 'no_route_available'],
  ['without the model, which another own has', 'A', 'a-open', { pin: 'aHome' }, 'no_route_available'],
])

rows('§9: profiles', [
  ['own', 'A', 'shared', { profile: ['aOpen', 'shared'] }, ['aOpen']],
  ['own, with a pin to its node', 'A', 'shared', { profile: ['aOpen', 'shared'], pin: 'aOpen' }, ['aOpen']],
  ['own, with a pin elsewhere', 'A', 'shared', { profile: ['aOpen', 'shared'], pin: 'aHome' }, 'no_route_available'],
  ['of another model', 'A', 'shared', { profile: ['aOpen', 'a-open'] }, 'model_not_found'],
  ['on a private machine of others', 'A', 'shared', { profile: ['bHome', 'shared'] }, 'model_not_found'],
  ['on a public one, allowed', 'A', 'b-open', { profile: ['bOpen', 'b-open'], ...open }, 'model_not_found'],
  ['outside the scope', 'A', 'shared', { profile: ['aOpen', 'shared'], keyScope: ['aHome'] }, 'model_not_found'],
])

rows('§9: route tiers', [
  ['of the key', 'A', 'shared', { key: tiers('edge') }, ['aOpen']],
  ['of the account', 'A', 'shared', { account: tiers('gpu') }, ['aHome']],
  ['of both, nothing shared', 'A', 'shared', { account: tiers('gpu'), key: tiers('edge') }, 'model_not_allowed'],
  ['only others have it', 'A', 'shared', { key: tiers('lab') }, 'privacy_class_not_allowed'],
  [
    'only others have it, allowed',
    'A',
    'shared',
    { account: say('public'), key: { ...say('public'), ...tiers('lab') } },
    ['bTrusted'],
  ],
  ['among others', 'C', 'shared', { account: { ...say('public'), ...tiers('edge') }, key: say('public') }, ['aOpen']],
  ['none are all', 'A', 'a-open', { key: tiers() }, ['aOpen']],
])

rows('§13: the model policy, and what it does not open', [
  ['denied, own', 'A', 'a-home', { account: deny('a-*') }, 'model_not_allowed'],
  ['denied, of others', 'C', 'b-open', { ...open, key: { ...say('public'), ...deny('b-open') } }, 'model_not_allowed'],
  ['allowed, and not visible', 'A', 'b-only', { key: allow('b-*') }, 'model_not_found'],
  ['allowed, and below the class', 'A', 'b-open', { account: allow('b-open') }, 'privacy_class_not_allowed'],
  ['denied, and not visible', 'A', 'b-only', { key: deny('b-only') }, 'model_not_found'],
])

describe('§8: a prompt leaves the owner’s machines only when account and key both say so', () => {
  const says = ['nothing', 'private', 'trusted', 'public'] as const
  const asks: Readonly<Record<(typeof says)[number], number>> = { nothing: 0, private: 0, trusted: 1, public: 2 }
  const strangers: readonly (readonly [string, NodeName, number])[] = [
    ['b-open', 'bOpen', 2],
    ['b-trusted', 'bTrusted', 1],
    ['b-claims', 'bClaims', 1],
  ]
  const matrix = strangers.flatMap(([model, node, needed]) =>
    says.flatMap((account) => says.map((key) => [model, account, key, node, needed] as const)),
  )
  test.each(matrix)('%s: the account says %s, the key %s', async (model, account, key, node, needed) => {
    const rules = {
      ...(account === 'nothing' ? {} : { account: say(account) }),
      ...(key === 'nothing' ? {} : { key: say(key) }),
    }
    const both = Math.min(asks[account], asks[key])
    await paths.expectPath('C', model, rules, both >= needed ? [node] : 'privacy_class_not_allowed')
  })

  test('§27: an operator who acts for a customer has no key: the account alone says so', async () => {
    const { gateway, pool } = paths
    const { customerId, customerToken } = pool.customer('C')
    const headers = {
      authorization: `Bearer ${gateway.tokens.operator}`,
      'content-type': 'application/json',
      'x-svc-customer-id': customerId,
      'x-svc-customer-token': customerToken,
    }
    await pool.account('C', say('public'))
    const [refusal, seen] = await paths.ask('', 'b-open', { headers })
    expect([refusal, seen.length]).toEqual([null, 1])
    for (const account of [null, say('private'), say('trusted')]) {
      await pool.account('C', account)
      expect(await paths.ask('', 'b-open', { headers })).toEqual(['privacy_class_not_allowed', []])
    }
  })
})
