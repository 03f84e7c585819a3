import { describe, expect, test } from 'bun:test'
import { newToken } from '../../../src/secrets.ts'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { type CustomerName, type NodeName, startPromptPaths } from '../../support/leaks/prompt-paths.ts'
import { fixture } from '../../support/run/fixture.ts'

const paths = await fixture(startPromptPaths())

const list = (authorization?: string) =>
  fetch(`${paths.gateway.url}/v1/api/models`, { headers: authorization === undefined ? {} : { authorization } })

async function idsFor(key?: string): Promise<readonly string[]> {
  const response = await list(key === undefined ? undefined : `Bearer ${key}`)
  if (response.status !== 200) throw new Error(await response.text())
  const caching = key === undefined ? 'public, max-age=5' : 'private, no-store'
  expect(response.headers.get('cache-control')).toBe(caching)
  expect(response.headers.get('vary')).toBe('Authorization')
  return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
}

const ofAll = ['a-only', 'a-open', 'b-claims', 'b-open', 'b-trusted', 'shared']
const ofA = ['a-home', 'a-only', 'a-open', 'shared']
const ofB = ['b-claims', 'b-only', 'b-open', 'b-trusted', 'shared']

interface Rules {
  readonly account?: object
  readonly key?: object
  readonly scope?: readonly NodeName[]
}
const open = { min_privacy_class: 'public' }

const keyed: readonly (readonly [string, CustomerName, Rules, readonly string[]])[] = [
  ['A', 'A', {}, ofA],
  ['B', 'B', {}, ofB],
  ['who owns nothing', 'C', {}, []],
  ['prompts may leave: those of others, too', 'A', { account: open, key: open }, ['a-home', ...ofAll]],
  ['who owns nothing, prompts may leave', 'C', { account: open, key: open }, ofAll],
  ['prompts may leave by the account’s word alone', 'A', { account: open }, ofA],
  ['prompts may leave by the key’s word alone', 'C', { key: open }, []],
  ['a scope', 'A', { scope: ['aHome'] }, ['a-home', 'a-only', 'shared']],
  [
    'a scope with a machine of others',
    'A',
    { key: open, account: open, scope: ['aOpen', 'bOpen'] },
    ['a-only', 'a-open', 'b-open', 'shared'],
  ],
  ['a scope of others alone', 'A', { key: open, account: open, scope: ['bOpen'] }, ['b-open', 'shared']],
  ['a scope of others alone, and prompts stay', 'A', { scope: ['bOpen'] }, []],
  ['an empty scope', 'A', { scope: [] }, []],
  ['a tier', 'A', { key: { route_tiers: ['edge'] } }, ofA.slice(1)],
  ['a tier of the account', 'A', { account: { route_tiers: ['gpu'] } }, ['a-home', 'a-only', 'shared']],
  ['a tier nobody has', 'A', { account: { route_tiers: ['none'] } }, []],
  ['denied', 'A', { key: { denied_models: ['a-*'] } }, ['shared']],
  [
    'denied by the account',
    'B',
    { account: { denied_models: ['b-claims', 'sha*'] } },
    ['b-only', 'b-open', 'b-trusted'],
  ],
  ['allowed', 'A', { key: { allowed_models: ['a-o*'] } }, ['a-only', 'a-open']],
  ['nothing allowed', 'A', { key: { allowed_models: [] } }, []],
  [
    'allowed by the key, denied by the account',
    'A',
    { account: { denied_models: ['a-open'] }, key: { allowed_models: ['a-o*'] } },
    ['a-only'],
  ],
  ['the strictest class', 'A', { account: { min_privacy_class: 'private' } }, ofA],
]

describe('endpoint 3, rule 2: what a key lists', () => {
  test.each(keyed.map((row) => [...row] as const))('%s', async (_name, as, rules, expected) => {
    const { pool } = paths
    await pool.account(as, rules.account ?? null)
    const { key, keyId } = await pool.key(as, {
      ...(rules.key === undefined ? {} : { model_policy: rules.key }),
      ...(rules.scope === undefined ? {} : { node_scope: rules.scope.map((name) => pool.nodeId(name)) }),
    })
    expect(await idsFor(key)).toEqual([...expected])
    await paths.gateway.admin('DELETE', `/v1/admin/keys/${keyId}`)
  })
})

describe('endpoint 3, rule 1: what everybody lists', () => {
  const path = (name: NodeName) => `/v1/admin/nodes/${paths.pool.nodeId(name)}`
  const without = (...ids: string[]) => ofAll.filter((id) => !ids.includes(id))

  test('models of public machines of all owners', async () => {
    expect(await idsFor()).toEqual(ofAll)
  })

  test('a machine that is made private leaves the list, and is listed to its owner', async () => {
    const { key } = await paths.pool.key('B')
    await paths.pool.account('B', null)
    await paths.gateway.admin('PATCH', path('bOpen'), { visibility: 'private' })
    expect(await idsFor()).toEqual(without('b-open'))
    expect(await idsFor(key)).toEqual(ofB)
    await paths.gateway.admin('PATCH', path('bOpen'), { visibility: 'public' })
    expect(await idsFor()).toEqual(ofAll)
  })

  test('a machine that is drained, not ready or revoked is not live', async () => {
    await paths.gateway.admin('POST', `${path('bTrusted')}/drain`)
    await waitFor('the drained one to leave', async () => !(await idsFor()).includes('b-trusted'))
    expect(await idsFor()).toEqual(without('b-trusted'))
    paths.pool.fake('bClaims').setFaults({ kind: 'unhealthyOnly' })
    await waitFor('the unhealthy one to leave', async () => !(await idsFor()).includes('b-claims'))
    expect(await idsFor()).toEqual(without('b-trusted', 'b-claims'))
    await paths.gateway.admin('POST', `${path('aOpen')}/revoke`)
    expect(await idsFor()).toEqual(['b-open', 'shared'])
    expect(await idsFor((await paths.pool.key('A')).key)).toEqual(['a-home', 'a-only', 'shared'])
  })
})

describe('§4: a credential that does not hold never falls back to the public list', () => {
  const unauthorized = { status: 401, code: 'invalid_api_key', param: 'header.authorization', retry: false } as const

  test('malformed, unknown, of another kind, of another scheme, empty', async () => {
    const { key } = await paths.pool.key('A')
    const { customerToken } = paths.pool.customer('A')
    const tokens = ['x', newToken('gateway'), customerToken, paths.gateway.tokens.admin, `${key}x`, key.slice(0, -1)]
    for (const authorization of [...tokens.map((token) => `Bearer ${token}`), key, `Basic ${key}`, 'Bearer']) {
      await expectRefusal(await list(authorization), unauthorized, '"data"')
    }
  })

  test('revoked, rotated away, expired', async () => {
    const { gateway, pool } = paths
    const revoked = await pool.key('A')
    expect(await idsFor(revoked.key)).not.toEqual([])
    await gateway.admin('DELETE', `/v1/admin/keys/${revoked.keyId}`)
    const rotated = await pool.key('A')
    expect(await idsFor(rotated.key)).not.toEqual([])
    await gateway.admin('POST', `/v1/admin/keys/${rotated.keyId}/rotate`, { keep_seconds: 0 })
    const until = new Date(Date.now() + 3_000)
    const expired = await pool.key('A', { expires_at: until.toISOString() })
    expect(await idsFor(expired.key)).not.toEqual([])
    await waitFor('its time', () => Date.now() > until.getTime())
    for (const { key } of [revoked, rotated, expired]) {
      await expectRefusal(await list(`Bearer ${key}`), unauthorized, '"data"')
    }
  })

  test('an account that is suspended or closed', async () => {
    const { gateway } = paths
    const { customerId } = paths.pool.customer('A')
    const { key } = await paths.pool.key('A')
    for (const status of ['suspended', 'closed']) {
      await gateway.admin('PATCH', `/v1/admin/customers/${customerId}`, { account_status: status })
      await expectRefusal(
        await list(`Bearer ${key}`),
        { status: 403, code: 'account_suspended', retry: false },
        '"data"',
      )
    }
    await gateway.admin('PATCH', `/v1/admin/customers/${customerId}`, { account_status: 'active' })
    expect(await idsFor(key)).not.toEqual([])
  })
})
