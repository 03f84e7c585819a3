import { afterEach, describe, expect, test } from 'bun:test'
import type { ChatCommand } from '../../../src/actors/chat/chat-command.ts'
import type { Decision } from '../../../src/actors/dispatch/dispatched.ts'
import { DecisionLog } from '../../../src/actors/explain/decision-log.ts'
import { newId } from '../../../src/ids.ts'
import type { Explanation } from '../../../src/protocol/wire/admin/explanation.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { startOwnedPool } from '../../support/pools/owned-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const secret = 'the-prompt-nobody-may-see'
const own = { owner: 'A', visibility: 'private', privacyClass: 'private' } as const
const theirs = { owner: 'B', visibility: 'public', privacyClass: 'public' } as const
const nodes = {
  one: { ...own, fake: { models: ['pair', 'both'] } },
  two: { ...own, fake: { models: ['pair', 'short'], contextLength: 1_000 } },
  tight: { ...own, fake: { models: ['tight'], speaks: 'llama.cpp', slots: 1 } },
  open: { ...theirs, fake: { models: ['both', 'foreign', 'tight'] } },
  hidden: { ...theirs, visibility: 'private', fake: { models: ['both', 'unseen'] } },
} as const
type NodeName = keyof typeof nodes

const gateway = await fixture(
  startTestGateway({ env: { SVC_QUEUE_WAIT_MS: '100', SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }),
)
const pool = await fixture(startOwnedPool(gateway, ['A', 'B', 'L'], nodes))
await pool.account('A', { min_privacy_class: 'public' })
const key = (await pool.key('A')).key
const away = (await pool.key('A', { model_policy: { min_privacy_class: 'public' } })).key

afterEach(() => {
  for (const name of Object.keys(nodes)) pool.fake(name).clearFaults()
})

type Tried = Explanation['tries'][number]
interface Asked {
  readonly status: number
  readonly requestId: string
}

async function ask(as: string, model: string, more: object = {}): Promise<Asked> {
  const response = await gateway.chat(as, { model, messages: [{ role: 'user', content: secret }], ...more })
  await response.text()
  return { status: response.status, requestId: response.headers.get('x-request-id') ?? '' }
}

async function explain({ requestId }: Asked): Promise<Explanation> {
  const path = `/v1/admin/explain?request_id=${requestId}`
  return gateway.admin<Explanation>('GET', path, undefined, gateway.tokens.viewer)
}

/** What is said of each node by name, e.g. `{ one: 'chosen only' }`. */
function reasons({ routes }: Tried): Readonly<Partial<Record<NodeName, string>>> {
  const names = Object.fromEntries(Object.keys(nodes).map((name) => [pool.nodeId(name), name]))
  return Object.fromEntries(routes.map(({ node_id, verdict, reason }) => [names[node_id], `${verdict} ${reason}`]))
}

async function whyOf(asked: Asked): Promise<readonly (readonly [string, string | null, object])[]> {
  const { tries } = await explain(asked)
  return tries.map((tried) => [tried.result, tried.code, reasons(tried)])
}

/** While `body` runs the one slot of the machine is taken. */
async function whileFull<T>(body: () => Promise<T>): Promise<T> {
  const tight = pool.fake('tight')
  tight.setFaults({ kind: 'hang', times: 1 })
  const leaving = new AbortController()
  const arrived = tight.nextRequest()
  const init = {
    signal: leaving.signal,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tight', messages: [{ role: 'user', content: 'held' }] }),
  }
  const held = gateway.chat(key, {}, init).catch(() => null)
  await arrived
  try {
    return await body()
  } finally {
    leaving.abort()
    await held
    await tight.idle()
  }
}

describe('§23: why this node', () => {
  test('the only one', async () => {
    const asked = await ask(key, 'both')
    expect(asked.status).toBe(200)
    const foreign = { open: 'refused privacy_class', hidden: 'refused not_visible' }
    expect(await whyOf(asked)).toEqual([['placed', null, { one: 'chosen only', ...foreign }]])
  })

  test('own machines first', async () => {
    const asked = await ask(away, 'both')
    const foreign = { open: 'refused own_machines_first', hidden: 'refused not_visible' }
    expect(await whyOf(asked)).toEqual([['placed', null, { one: 'chosen only', ...foreign }]])
  })

  test('by load, and then by the conversation it has in its cache', async () => {
    const turn = { role: 'user', content: crypto.randomUUID().repeat(30) }
    const first = await ask(key, 'pair', { messages: [turn] })
    const [[, , chosen]] = (await whyOf(first)) as [[string, null, Record<string, string>]]
    expect(Object.values(chosen).sort()).toEqual(['chosen load', 'eligible less_preferred'])
    const messages = [turn, { role: 'assistant', content: 'x' }, { role: 'user', content: 'more' }]
    const second = await ask(key, 'pair', { messages })
    const same = Object.fromEntries(
      Object.entries(chosen).map(([name, why]) => [name, why === 'chosen load' ? 'chosen affinity' : why]),
    )
    expect(await whyOf(second)).toEqual([['placed', null, same]])
    const [tried] = (await explain(second)).tries
    const costs = tried?.routes.map(({ verdict, cost }) => ({ verdict, ...cost })) ?? []
    const least = costs.find(({ verdict }) => verdict === 'chosen')
    const other = costs.find(({ verdict }) => verdict === 'eligible')
    expect(least?.matched_share).toBeGreaterThan(0.9)
    expect(other).toMatchObject({ matched_share: 0, backlog_ms: 0, slot_wait_ms: 0, cold_ms: 0 })
    expect(other?.total_ms).toBeGreaterThan(least?.total_ms ?? 0)
    expect(other?.total_ms).toBeCloseTo(
      (other?.own_ms ?? 0) + (other?.fleet_ms ?? 0) / 2 - (other?.doubt_ms ?? Number.NaN),
    )
  })

  test('a pin, and a profile', async () => {
    const pinned = await ask(key, 'pair', { svc: { node_id: pool.nodeId('two') } })
    expect(await whyOf(pinned)).toEqual([['placed', null, { one: 'refused not_pinned', two: 'chosen only' }]])
    const profiled = await ask(key, 'pair', { svc: { model_profile_id: await pool.profileId('one', 'pair') } })
    expect(await whyOf(profiled)).toEqual([['placed', null, { one: 'chosen only', two: 'refused other_profile' }]])
  })

  test('another one after a failure', async () => {
    // Slow, so that the other one is taken first.
    pool.fake('two').setFaults({ kind: 'slowHeaders', ms: 1_000, scope: 'chat' })
    const messages = () => [{ role: 'user', content: crypto.randomUUID() }]
    await waitFor('the quicker one to be preferred', async () => {
      for (const name of ['one', 'two']) await ask(key, 'pair', { stream: true, svc: { node_id: pool.nodeId(name) } })
      const [first] = await whyOf(await ask(key, 'pair', { stream: true, messages: messages() }))
      return Bun.deepEquals(first?.[2], { one: 'chosen load', two: 'eligible less_preferred' })
    })
    pool.fake('one').setFaults({ kind: 'status500', scope: 'chat' })
    const asked = await ask(key, 'pair', { messages: messages() })
    expect(asked.status).toBe(200)
    expect(await whyOf(asked)).toEqual([
      ['placed', null, { one: 'chosen load', two: 'eligible less_preferred' }],
      ['placed', null, { one: 'refused tried', two: 'chosen only' }],
    ])
  })

  test('others, because the own ones are full: said as it was, not as it is', async () => {
    const asked = await whileFull(() => ask(away, 'tight'))
    expect(asked.status).toBe(200)
    expect(await whyOf(asked)).toEqual([['placed', null, { tight: 'refused full', open: 'chosen only' }]])
  })
})

describe('§23: why none', () => {
  test('all full: every look is told, as it was', async () => {
    const asked = await whileFull(() => ask(key, 'tight'))
    expect(asked.status).toBe(429)
    const { tries } = await explain(asked)
    expect(tries.length).toBeGreaterThan(0)
    for (const tried of tries) {
      expect([tried.result, tried.code]).toEqual(['saturated', null])
      expect(reasons(tried)).toEqual({ tight: 'refused full', open: 'refused privacy_class' })
      expect(tried.routes.find(({ node_id }) => node_id === pool.nodeId('tight'))?.in_flight).toBe(1)
    }
  })

  const cases: readonly (readonly [string, () => Promise<Asked>, string, object])[] = [
    ['an unknown model', () => ask(key, 'nobody-has-it'), 'model_not_found', {}],
    ['a model of others, private', () => ask(away, 'unseen'), 'model_not_found', { hidden: 'refused not_visible' }],
    ['the class', () => ask(key, 'foreign'), 'privacy_class_not_allowed', { open: 'refused privacy_class' }],
    [
      'the context',
      () => ask(key, 'short', { messages: [{ role: 'user', content: 'x'.repeat(10_000) }] }),
      'context_length_exceeded',
      { two: 'refused context_length' },
    ],
    [
      'a pin to a machine of others',
      () => ask(away, 'foreign', { svc: { node_id: pool.nodeId('open') } }),
      'node_pin_forbidden',
      { open: 'refused pin_forbidden' },
    ],
  ]
  test.each(cases.map((row) => [...row] as const))('%s', async (_name, request, code, why) => {
    const asked = await request()
    expect(asked.status).toBeGreaterThanOrEqual(400)
    expect(await whyOf(asked)).toEqual([['refused', code, why]])
  })

  test('the policy, the tier and the scope of a key', async () => {
    const denied = await pool.key('A', { model_policy: { denied_models: ['pair'] } })
    expect(await whyOf(await ask(denied.key, 'pair'))).toEqual([
      ['refused', 'model_not_allowed', { one: 'refused model_policy', two: 'refused model_policy' }],
    ])
    const tier = await pool.key('A', { model_policy: { route_tiers: ['none'] } })
    expect(await whyOf(await ask(tier.key, 'short'))).toEqual([
      ['refused', 'model_not_allowed', { two: 'refused route_tier' }],
    ])
    const scope = await pool.key('A', { node_scope: [pool.nodeId('one')] })
    expect(await whyOf(await ask(scope.key, 'pair'))).toEqual([
      ['placed', null, { one: 'chosen only', two: 'refused not_visible' }],
    ])
  })

  test('a machine that is not ready', async () => {
    const path = `/v1/admin/nodes/${pool.nodeId('two')}`
    await gateway.admin('POST', `${path}/drain`)
    const asked = await ask(key, 'short')
    expect(asked.status).toBe(503)
    expect(await whyOf(asked)).toEqual([['refused', 'no_route_available', { two: 'refused not_ready' }]])
    const [tried] = (await explain(asked)).tries
    expect(['draining', 'live']).toContain(tried?.routes[0]?.node_state ?? '')
    await gateway.admin('POST', `${path}/resume`)
    await waitFor('it to be ready', async () => (await gateway.admin('GET', path)).state === 'ready')
  })

  test('also for an account with limits, which is refused before it takes anything', async () => {
    await pool.account('L', { daily_token_quota: 1_000, max_concurrency: 1 })
    const limited = (await pool.key('L')).key
    const asked = await ask(limited, 'foreign')
    expect(asked.status).toBe(403)
    expect(await whyOf(asked)).toEqual([['refused', 'privacy_class_not_allowed', { open: 'refused privacy_class' }]])
  })
})

describe('§23: what is shown to whom', () => {
  test('node ids only: no address, prompt or key; the customer from operator up', async () => {
    const { requestId } = await ask(key, 'both')
    const path = `/v1/admin/explain?request_id=${requestId}`
    const { viewer, operator, admin } = gateway.tokens
    const { customerId } = pool.customer('A')
    const hidden = Object.keys(nodes).map((name) => `127.0.0.1:${pool.fake(name).port}`)
    for (const [token, owner] of [
      [viewer, null],
      [operator, customerId],
      [admin, customerId],
    ] as const) {
      const shown = await gateway.admin<Explanation>('GET', path, undefined, token)
      expect(shown.customer_id).toBe(owner)
      const text = JSON.stringify({ ...shown, customer_id: null })
      for (const word of [...hidden, secret, key, customerId, pool.customer('B').customerId]) {
        expect(text).not.toContain(word)
      }
      expect(text).toContain(pool.nodeId('one'))
    }
  })

  test('a request that never came to a choice, an unknown id, no token', async () => {
    const status = async (requestId: string, token: string = gateway.tokens.viewer) => {
      const url = `${gateway.url}/v1/admin/explain?request_id=${requestId}`
      const response = await fetch(url, { headers: token === '' ? {} : { 'x-svc-admin-token': token } })
      return [response.status, ((await response.json()) as { code: string }).code] as const
    }
    const malformed = await ask(key, 'both', { temperature: 7 })
    expect(await status(malformed.requestId)).toEqual([404, 'request_not_found'])
    expect(await status(newId('req'))).toEqual([404, 'request_not_found'])
    expect(await status(newId('req'), '')).toEqual([401, 'missing_credentials'])
    expect(await status(newId('req'), key)).toEqual([401, 'invalid_credentials'])
  })
})

test('§23: the last 10 000 requests are kept, and of each the first eight looks', () => {
  const log = new DecisionLog()
  const table = { version: 0, publishedAtMs: 0, routes: [], byModel: new Map(), owners: new Map() }
  const decision = {
    table,
    placement: { kind: 'refused', code: 'model_not_found' },
    request: { modelId: 'm', access: { customerId: 'cus', policy: {} }, pin: null, exclude: new Set(), nowMs: 1 },
  } as unknown as Decision
  const command = (requestId: string) =>
    ({ requestId, body: { model: 'm' }, access: { customerId: 'cus' } }) as unknown as ChatCommand
  for (let i = 0; i < 10_000; i++) log.record(command(`req_${i}`), decision, false)
  for (let i = 0; i < 20; i++) log.record(command('req_9999'), decision, true)
  expect(log.explain('req_0')?.tries).toHaveLength(1)
  expect(log.explain('req_9999')?.tries).toHaveLength(8)
  log.record(command('req_new'), decision, false)
  expect(log.explain('req_0')).toBeNull()
  expect(log.explain('req_1')).not.toBeNull()
  for (let i = 0; i < 25_000; i++) log.record(command(`req_later_${i}`), decision, false)
  expect(log.explain('req_new')).toBeNull()
  expect(log.explain('req_later_14999')).toBeNull()
  expect(log.explain('req_later_15000')).not.toBeNull()
})

test('§23: a model of thousands of routes has as many decisions as there is room for, the newest', () => {
  const log = new DecisionLog()
  const load = { inFlight: 0, ttftEwmaMs: null, ejectedUntilMs: 0 }
  const routes = Array.from({ length: 4_000 }, () => ({ load }))
  const decision = {
    table: { version: 0, publishedAtMs: 0, routes, byModel: new Map([['m', routes]]), owners: new Map() },
    placement: { kind: 'refused', code: 'no_route_available' },
    // A pin that nobody owns is refused without a look at the routes, which are made up.
    request: { modelId: 'm', access: { customerId: 'cus', policy: {} }, pin: 'nobody', exclude: new Set(), nowMs: 1 },
  } as unknown as Decision
  const record = (i: number, again = false, seen = decision) =>
    log.record({ requestId: `req_${i}`, body: { model: 'm' } } as unknown as ChatCommand, seen, again)
  const kept = (i: number) => log.explain(`req_${i}`) !== null
  for (let i = 0; i < 1_000; i++) record(i)
  expect([kept(499), kept(500), kept(999)]).toEqual([false, true, true])
  for (let i = 0; i < 7; i++) record(999, true)
  record(1_000)
  expect([kept(507), kept(508), kept(1_000)]).toEqual([false, true, true])
  // No less in a ring that is full of requests for small models.
  const small = { ...decision, table: { ...decision.table, byModel: new Map() } } as unknown as Decision
  for (let i = 2_000; i < 12_000; i++) record(i, false, small)
  for (let i = 12_000; i < 13_000; i++) record(i)
  expect([kept(12_499), kept(12_500), kept(12_999)]).toEqual([false, true, true])
  // Looks of a request that waits make room for themselves.
  for (let i = 0; i < 7; i++) record(12_999, true)
  expect([kept(12_506), kept(12_507), kept(12_999)]).toEqual([false, true, true])
})
