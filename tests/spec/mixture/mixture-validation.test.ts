import { describe, expect, test } from 'bun:test'
import { type ExpectedRefusal, expectRefusal } from '../../support/clients/chat-refusal.ts'
import {
  type Asked,
  expert,
  type MixturePool,
  secret,
  shareMixturePool,
  synthesize,
  vote,
  weighted,
} from '../../support/pools/mixture-pool.ts'

let pool: MixturePool
shareMixturePool((started) => {
  pool = started
})

const a = expert('a')
const b = expert('b')
const experts = [a, b]

const bad = (code: string, param?: string): ExpectedRefusal => ({
  status: 400,
  code,
  retry: false,
  ...(param === undefined ? {} : { param }),
})
const forbidden = (code: string, param?: string): ExpectedRefusal => ({ ...bad(code, param), status: 403 })

/** The refusal, and that no machine heard of the request. */
async function refused(mixture: unknown, expected: ExpectedRefusal, asked?: Asked): Promise<void> {
  await expectRefusal(await pool.mix(mixture, asked), expected, secret)
  expect(pool.calls()).toEqual({})
}

type Row = readonly [what: string, mixture: unknown, code: string, param: string | undefined, asked?: Asked]

const malformed = (what: string, mixture: unknown, param?: string): Row => [what, mixture, 'mixture_invalid', param]
const at = (rest: string) => `svc.mixture.${rest}`
const weightRow = (weight: unknown): Row =>
  malformed(`a weight of ${JSON.stringify(weight)}`, vote(a, { model: 'b', weight }), at('experts[1].weight'))
const quorumRow = (quorum: unknown): Row =>
  malformed(
    `min_experts of ${JSON.stringify(quorum)} with two experts`,
    { ...vote(a, b), min_experts: quorum },
    at('min_experts'),
  )

describe('mixture configuration: 400 mixture_invalid', () => {
  const rows: readonly Row[] = [
    malformed('the mixture is text', 'vote', 'svc.mixture'),
    malformed('the mixture is a list', [], 'svc.mixture'),
    malformed('nothing in it', {}, at('strategy')),
    malformed('strategy absent', { experts }, at('strategy')),
    malformed('strategy null', { strategy: null, experts }, at('strategy')),
    malformed('strategy unknown', { strategy: 'best_of', experts }, at('strategy')),
    malformed('strategy in another case', { strategy: 'Vote', experts }, at('strategy')),
    malformed('strategy a name of the language', { strategy: 'constructor', experts }, at('strategy')),
    malformed('experts absent', { strategy: 'vote' }, at('experts')),
    malformed('experts empty', vote(), at('experts')),
    malformed('experts an object', { strategy: 'vote', experts: { model: 'a' } }, at('experts')),
    malformed('an expert is text', { strategy: 'vote', experts: ['a'] }, at('experts[0]')),
    malformed('an expert is null', { strategy: 'vote', experts: [a, null] }, at('experts[1]')),
    malformed('an expert without model', vote(a, {}), at('experts[1].model')),
    malformed('an expert whose model is a number', vote({ model: 7 }), at('experts[0].model')),
    malformed('an expert whose model is empty', vote({ model: '' }), at('experts[0].model')),
    malformed('an unknown key of an expert', vote(a, { model: 'b', temperature: 1 }), at('experts[1].temperature')),
    malformed('an unknown key of the mixture', { ...vote(a, b), rounds: 2 }, at('rounds')),
    weightRow(0),
    weightRow(-1),
    weightRow(true),
    weightRow('2'),
    weightRow(null),
    weightRow([1]),
    malformed('synthesize without aggregator', { strategy: 'synthesize', experts }, at('aggregator')),
    malformed('an aggregator that is text', { ...synthesize(a), aggregator: 'agg' }, at('aggregator')),
    malformed('an aggregator without model', { ...synthesize(a), aggregator: {} }, at('aggregator.model')),
    malformed(
      'an aggregator with an empty model',
      { ...synthesize(a), aggregator: { model: '' } },
      at('aggregator.model'),
    ),
    malformed(
      'an unknown key of the aggregator',
      { ...synthesize(a), aggregator: { model: 'agg', temperature: 1 } },
      at('aggregator.temperature'),
    ),
    quorumRow(0),
    quorumRow(3),
    quorumRow(-1),
    quorumRow(1.5),
    quorumRow('1'),
    quorumRow(null),
    quorumRow(true),
  ]
  test.each(rows.map((row) => [...row] as const))('%s', async (_what, mixture, code, param) => {
    await refused(mixture, bad(code, param))
  })

  test('a weight beyond all numbers', async () => {
    const body = `{"model":"m","messages":[{"role":"user","content":"${secret}"}],"svc":{"mixture":{"strategy":"vote","experts":[{"model":"a","weight":1e999}]}}}`
    const response = await pool.gateway.chat(
      pool.customer.key,
      {},
      {
        headers: { authorization: `Bearer ${pool.customer.key}`, 'content-type': 'application/json' },
        body,
      },
    )
    await expectRefusal(response, bad('mixture_invalid', at('experts[0].weight')), secret)
  })
})

describe('§3: the other refusals of a mixture', () => {
  const five = ['a', 'b', 'c', 'd', 'e'].map((model) => expert(model))
  const pinned = (more: object = {}): Asked => ({ svc: { node_id: pool.nodeId('a'), ...more } })
  const rows: readonly Row[] = [
    ['debate is reserved', { strategy: 'debate', experts }, 'mixture_strategy_reserved', at('strategy')],
    ['five experts', vote(...five), 'mixture_too_many_experts', at('experts')],
    ...(['node_id', 'route', 'hostname'] as const).flatMap((key): readonly Row[] => [
      [
        `an expert with ${key}`,
        vote(a, { model: 'b', [key]: 'x' }),
        'mixture_expert_field_forbidden',
        at(`experts[1].${key}`),
      ],
      [
        `an expert with ${key}: null`,
        vote({ model: 'b', [key]: null }),
        'mixture_expert_field_forbidden',
        at(`experts[0].${key}`),
      ],
      [
        `an aggregator with ${key}`,
        { ...synthesize(a), aggregator: { model: 'agg', [key]: 'x' } },
        'mixture_expert_field_forbidden',
        at(`aggregator.${key}`),
      ],
    ]),
    ['n of 2', vote(a, b), 'n_not_supported', 'n', { body: { n: 2 } }],
    [
      'dispatch_mode private_job',
      vote(a, b),
      'mixture_unsupported_path',
      undefined,
      { svc: { dispatch_mode: 'private_job' } },
    ],
    ['another dispatch_mode', vote(a, b), 'mixture_unsupported_path', undefined, { svc: { dispatch_mode: 'direct' } }],
    [
      'max_tokens beyond the budget',
      vote(a, b),
      'mixture_token_budget_exceeded',
      undefined,
      { body: { max_tokens: 40_000 } },
    ],
  ]
  test.each(rows.map(([what, mixture, code, param, asked]) => [what, mixture, code, param, asked ?? {}] as const))(
    '%s',
    async (_what, mixture, code, param, asked) => {
      await refused(mixture, bad(code, param), asked)
    },
  )

  test('a pin in the body', () => refused(vote(a, b), bad('mixture_pin_conflict', 'svc.node_id'), pinned()))

  test('a pin in the query', async () => {
    const query = `?node_id=${pool.nodeId('a')}`
    await refused(vote(a, b), bad('mixture_pin_conflict', 'query.node_id'), { query })
  })

  test('a profile of one machine is a pin, too', async () => {
    const path = `/v1/admin/nodes/${pool.nodeId('a')}`
    const shown = await pool.gateway.admin<{ runtimes: { models: { model_profile_id: string }[] }[] }>('GET', path)
    const svc = { model_profile_id: shown.runtimes[0]?.models[0]?.model_profile_id ?? '' }
    await refused(vote(a, b), bad('mixture_pin_conflict', 'svc.model_profile_id'), { svc })
  })

  test('direct node targeting beside it', async () => {
    for (const svc of [{ route: 'x' }, { hostname: 'x' }, { runtime_id: 'x' }]) {
      const response = await pool.mix(vote(a, b), { svc })
      expect([response.status, pool.calls()]).toEqual([400, {}])
    }
    const response = await pool.mix(vote(a, b), { body: { node_id: pool.nodeId('a') } })
    expect([response.status, pool.calls()]).toEqual([400, {}])
  })

  test('§7: own_nodes_only where the quorum cannot be met because of models on nodes of others alone', async () => {
    const theirs = expert('theirs')
    const nowhere = expert('nowhere')
    const param = at('experts[0].model')
    const { message } = await expectRefusal(await pool.mix(vote(theirs)), forbidden('own_nodes_only', param), secret)
    expect(message).toBe(
      "A mixture uses your own nodes alone, and only other people's nodes serve theirs. Connect a node of your own, or choose models that GET /v1/models lists as svc.own.",
    )
    await refused(synthesize(theirs, theirs), forbidden('own_nodes_only', param))
    const both = { ...vote(nowhere, theirs), min_experts: 2 }
    await refused(both, forbidden('own_nodes_only', at('experts[1].model')))
    // What no node serves is `no_node`, and may be there when it is asked for.
    for (const mixture of [vote(nowhere), { ...vote(theirs, nowhere), min_experts: 1 }]) {
      const response = await pool.mix(mixture)
      const { error } = (await response.json()) as { error: { code: string } }
      expect([response.status, error.code, pool.calls()]).toEqual([503, 'mixture_quorum_not_met', {}])
    }
  })

  test('a stranger hears 401, whatever is wrong with the mixture', async () => {
    const response = await pool.mix('nonsense', { key: 'nonsense' })
    expect(response.status).toBe(401)
  })

  test('a body that breaks its own schema is refused as any other', () =>
    refused('nonsense', bad('invalid_request', 'temperature'), { body: { temperature: 7 } }))
})

describe('§7: what is accepted', () => {
  const rows: readonly (readonly [string, object, Asked?])[] = [
    ['dispatch_mode pooled_sync', vote(a, b), { svc: { dispatch_mode: 'pooled_sync' } }],
    ['n of 1', vote(a, b), { body: { n: 1 } }],
    ['max_price_wei, of whatever form', { ...vote(a, b), max_price_wei: 'a lot' }],
    ['max_price_wei as a number', { ...vote(a, b), max_price_wei: 7 }],
    ['the price cap of the request', vote(a, b), { svc: { max_price_wei: '0' } }],
    ['four experts', vote(a, b, expert('c'), expert('d'))],
    ['the smallest weight', vote(expert('a', Number.MIN_VALUE), b)],
    ['a large weight', weighted(expert('a', 1e300), b)],
    ['one model twice', vote(a, a, b)],
    ['an aggregator under vote, of any form', { ...vote(a, b), aggregator: 'nonsense' }],
    ['an aggregator under weighted, with what is forbidden', { ...weighted(a, b), aggregator: { node_id: 'x' } }],
    ['min_experts of all', { ...vote(a, b), min_experts: 2 }],
    ['four experts and an aggregator', synthesize(a, b, expert('c'), expert('d'))],
    ['a top-level model that nobody has', vote(a, b), { body: { model: 'nobody-has-it' } }],
  ]
  test.each(rows.map(([what, mixture, asked]) => [what, mixture, asked ?? {}] as const))(
    '%s',
    async (_what, mixture, asked) => {
      const response = await pool.mix(mixture, asked)
      expect([response.status, (await response.text()).slice(0, 200)]).toEqual([200, expect.any(String)])
    },
  )
})

describe('§7: the order of the checks; the first failure is the answer', () => {
  /** Each step mends what the one before was refused for. */
  test('strategy, shape, cap, forbidden fields, aggregator, pin, quorum, policy, budget', async () => {
    const { key } = await pool.tenant({ policy: { denied_models: ['b'] } }, ['a', 'agg'])
    const many = (shape: object) => [a, b, expert('c'), expert('d'), { model: 'e', ...shape }]
    const pinnedTo = { svc: { node_id: 'node_x' }, key, body: { max_tokens: 40_000 } }
    const free = { key, body: { max_tokens: 40_000 } }
    const wrong = { aggregator: {}, min_experts: 9 }
    const forbids = [a, { model: 'b', node_id: 'x' }]
    const agg = { model: 'agg' }
    const steps: readonly (readonly [object, Asked, ExpectedRefusal])[] = [
      [{ ...wrong, experts: 'x', strategy: 'debate' }, pinnedTo, bad('mixture_strategy_reserved')],
      [{ ...wrong, experts: 'x', strategy: 'nonsense' }, pinnedTo, bad('mixture_invalid', at('strategy'))],
      [
        { ...wrong, experts: many({ weight: 0, node_id: 'x' }), strategy: 'synthesize' },
        pinnedTo,
        bad('mixture_invalid', at('experts[4].weight')),
      ],
      [
        { ...wrong, experts: many({ node_id: 'x' }), strategy: 'synthesize' },
        pinnedTo,
        bad('mixture_too_many_experts'),
      ],
      [{ ...wrong, experts: forbids, strategy: 'synthesize' }, pinnedTo, bad('mixture_expert_field_forbidden')],
      [{ ...wrong, experts, strategy: 'synthesize' }, pinnedTo, bad('mixture_invalid', at('aggregator.model'))],
      [{ ...wrong, experts, aggregator: agg, strategy: 'synthesize' }, pinnedTo, bad('mixture_pin_conflict')],
      [{ ...wrong, experts, aggregator: agg, strategy: 'synthesize' }, free, bad('mixture_invalid', at('min_experts'))],
      [
        { experts, aggregator: agg, strategy: 'synthesize' },
        free,
        forbidden('model_not_allowed', at('experts[1].model')),
      ],
      [{ experts: [a], aggregator: agg, strategy: 'synthesize' }, free, bad('mixture_token_budget_exceeded')],
    ]
    for (const [mixture, asked, expected] of steps) await refused(mixture, expected, asked)
  })

  test('of several faulty experts the first', async () => {
    await refused(vote(a, { model: 'b', weight: 0 }, { weight: 0 }), bad('mixture_invalid', at('experts[1].weight')))
  })

  test('budget before quota, quota before dispatch', async () => {
    const { key } = await pool.tenant({ policy: { daily_token_quota: 100 } }, ['a', 'b'])
    await refused(vote(a, b), bad('mixture_token_budget_exceeded'), { key, body: { max_tokens: 40_000 } })
    const exceeded = {
      status: 429,
      code: 'daily_token_quota_exceeded',
      type: 'insufficient_quota',
      retry: false,
    } as const
    await refused(vote(a, b), exceeded, { key, body: { max_tokens: 60 } })
  })
})

describe('policy of every expert and the aggregator: 403', () => {
  const keyOf = async (policy: object) => (await pool.tenant({ keyPolicy: policy }, ['a', 'b', 'agg'])).key

  test('an expert outside the key’s models', async () => {
    const key = await keyOf({ denied_models: ['b'] })
    await refused(vote(a, b), forbidden('model_not_allowed', at('experts[1].model')), { key })
  })

  test('an aggregator outside the key’s models', async () => {
    const key = await keyOf({ allowed_models: ['a', 'b'] })
    await refused(synthesize(a, b), forbidden('model_not_allowed', at('aggregator.model')), { key })
  })

  test('an expert outside the account’s models', async () => {
    const { key } = await pool.tenant({ policy: { denied_models: ['a'] } }, ['a', 'b'])
    await refused(weighted(a, b), forbidden('model_not_allowed', at('experts[0].model')), { key })
  })

  test('neither the top-level model nor an ignored aggregator is checked', async () => {
    const key = await keyOf({ denied_models: ['council', 'agg'] })
    const answer = await pool.answered({ ...vote(a, b), aggregator: { model: 'agg' } }, { key })
    expect(answer.model).toBe('council')
  })

  test('a node class that the policy does not name', async () => {
    const key = await keyOf({ route_tiers: ['datacentre'] })
    await refused(vote(a, b), forbidden('model_not_allowed', at('experts[0].model')), { key })
  })

  test('an expert that only machines below the privacy class serve', async () => {
    const { key } = await pool.tenant({}, ['a'])
    const expected = forbidden('privacy_class_not_allowed', at('experts[1].model'))
    await refused(vote(a, expert('theirs')), expected, { key })
  })

  test('an aggregator that only machines below the privacy class serve', async () => {
    const { key } = await pool.tenant({}, ['a'])
    const mixture = { ...synthesize(a), aggregator: { model: 'theirs' } }
    await refused(mixture, forbidden('privacy_class_not_allowed', at('aggregator.model')), { key })
  })

  test('mixtures switched off, for the key or the account', async () => {
    const off = { mixture: { enabled: false, max_experts: 4 } }
    for (const options of [{ policy: off }, { keyPolicy: off }]) {
      const { key } = await pool.tenant(options, ['a', 'b'])
      await refused(vote(a, b), forbidden('mixture_not_allowed'), { key })
    }
  })

  test('fewer experts than the gateway allows, where the policy says so', async () => {
    const key = await keyOf({ mixture: { enabled: true, max_experts: 1 } })
    await refused(vote(a, b), bad('mixture_too_many_experts', at('experts')), { key })
    expect((await pool.answered(synthesize(a), { key })).model).toBe('agg')
  })

  test('max_tokens above what the policy allows', async () => {
    const key = await keyOf({ max_tokens_per_request: 50 })
    await refused(vote(a, b), bad('max_tokens_exceeded', 'max_tokens'), { key, body: { max_tokens: 51 } })
    await pool.answered(vote(a, b), { key })
    expect(pool.bodies('a').map(({ max_tokens }) => max_tokens)).toEqual([50])
  })

  test('an account that is suspended', async () => {
    const { key, customerId } = await pool.tenant({}, ['a', 'b'])
    await pool.gateway.admin('PATCH', `/v1/admin/customers/${customerId}`, { account_status: 'suspended' })
    await refused(vote(a, b), forbidden('account_suspended'), { key })
  })
})
