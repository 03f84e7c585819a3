import { afterEach, describe, expect, test } from 'bun:test'
import { type FakeNode, type FakeNodeOptions, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { shownMetric } from '../support/gateways/metric.ts'
import { fixture } from '../support/run/fixture.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

const firstChunkMs = 1_000

/** Asks its nodes once and then no more within a test: what it knows of them, the calls of the test have told it. */
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
      SVC_FAILOVER_FIRST_CHUNK_MS: String(firstChunkMs),
      SVC_POLL_INTERVAL_MS: '60000',
      SVC_STALE_AFTER_MS: '600000',
      SVC_OFFLINE_AFTER_MS: '3600000',
      SVC_METRICS_PUBLIC: 'true',
    },
  }),
)
const customer = await gateway.customer()

/** Every test has nodes and a model of its own; they are gone afterwards. */
const made: { readonly node: FakeNode; readonly nodeId: string }[] = []
let modelsSoFar = 0
afterEach(async () => {
  for (const { node, nodeId } of made.splice(0)) {
    await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/revoke`, {})
    node.stop()
  }
})

interface Pool {
  readonly model: string
  readonly nodes: readonly FakeNode[]
  readonly nodeIds: readonly string[]
  requests(): readonly number[]
}

async function pool(count: number, options: FakeNodeOptions = {}): Promise<Pool> {
  const model = `model-${modelsSoFar++}`
  const nodes = Array.from({ length: count }, (_, at) =>
    startFakeNode({ models: [model], name: `${String.fromCharCode(97 + at)}-`, ...options }),
  )
  const nodeIds = await Promise.all(nodes.map(({ url }) => gateway.node(url, { customerId: customer.customerId })))
  made.push(...nodes.map((node, at) => ({ node, nodeId: nodeIds[at] ?? '' })))
  return {
    model,
    nodes,
    nodeIds,
    requests: () => nodes.map((node, at) => node.stats().requests - (before.get(model)?.[at] ?? 0)),
  }
}

let asked = 0
/** What the prompts of a model begin with, and how many requests its nodes had before its test. */
const beginnings = new Map<string, string>()
const before = new Map<string, readonly number[]>()
/** Each with a conversation of its own, so that no prefix draws it to a node. */
const ask = (model: string, more: object = {}, init: RequestInit = {}, key = customer.key) =>
  gateway.chat(
    key,
    { model, messages: [{ role: 'user', content: `${beginnings.get(model) ?? ''}${asked++} asks` }], ...more },
    init,
  )
/** Two seconds of reading, at the speed that is assumed. */
const longText = 'It is long. '.repeat(700)
/** Whatever is asked now begins with a text that the first node has in its cache: it goes there. */
async function preferFirst({ model, nodeIds, requests }: Pool): Promise<void> {
  beginnings.set(model, longText)
  expect((await ask(model, { svc: { node_id: nodeIds[0] } })).status).toBe(200)
  before.set(model, requests())
}
const upstreamFailures = (): Promise<number> => shownMetric(gateway, 'svc_upstream_failures_total')
const seen = (nodeId: string) => gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

interface ErrorBody {
  readonly error: { readonly code: string; readonly svc: { readonly retry_after_seconds: number | null } }
}
const errorOf = async (response: Response) => ((await response.json()) as ErrorBody).error

describe('§5: failover before the first byte', () => {
  const failures = [
    { name: 'a refused connection', fault: { kind: 'refuse' } },
    { name: 'a 500', fault: { kind: 'status500' } },
    { name: 'a 503', fault: { kind: 'status500', status: 503 } },
    { name: 'a 429', fault: { kind: 'status429' } },
    { name: 'a reset before the headers', fault: { kind: 'failAfter', ms: 10, as: 'reset' } },
    { name: 'a reset before the first chunk', fault: { kind: 'dropMidStream', afterChunks: 0 } },
    { name: 'an error under 200', fault: { kind: 'jsonErrorBody' } },
  ] as const
  for (const { name, fault } of failures) {
    for (const stream of [true, false]) {
      test(`${name}: another node answers, ${stream ? 'streamed' : 'whole'}`, async () => {
        const own = await pool(2)
        await preferFirst(own)
        const before = await upstreamFailures()
        own.nodes[0]?.setFaults(fault)
        const response = await ask(own.model, { stream })
        expect(response.status).toBe(200)
        expect(await response.text()).toContain('b-')
        // The first was asked, and failed.
        expect((await upstreamFailures()) - before).toBe(1)
        expect(own.requests()[1]).toBe(1)
      })
    }
  }

  test('at most two other routes, then 502 upstream_error, retryable', async () => {
    const { model, nodes, requests } = await pool(5)
    for (const node of nodes) node.setFaults({ kind: 'status500' })
    for (const stream of [true, false]) {
      const before = sum(requests())
      const response = await ask(model, { stream })
      expect(response.status).toBe(502)
      expect(response.headers.get('x-should-retry')).toBe('true')
      expect((await errorOf(response)).code).toBe('upstream_error')
      expect(sum(requests()) - before).toBe(3)
      expect(Math.max(...requests())).toBeLessThanOrEqual(2)
    }
  })

  test('all nodes say 429: capacity_exhausted with their Retry-After', async () => {
    const { model, nodes, requests } = await pool(2)
    for (const node of nodes) node.setFaults({ kind: 'status429', retryAfterS: 7 })
    const response = await ask(model)
    expect(response.status).toBe(429)
    expect(response.headers.get('retry-after')).toBe('7')
    expect((await errorOf(response)).code).toBe('capacity_exhausted')
    expect(requests()).toEqual([1, 1])
  })
})

describe('§5: patience for the first chunk', () => {
  test('a node that hangs is given up after the bound, and its call ended', async () => {
    const own = await pool(2)
    await preferFirst(own)
    const [hanging] = own.nodes
    hanging?.setFaults({ kind: 'hang' })
    const tookMs = stopwatch()
    expect(await (await ask(own.model, { stream: true })).text()).toContain('b-')
    expect(tookMs()).toBeGreaterThanOrEqual(firstChunkMs)
    expect(own.requests()).toEqual([1, 1])
    await hanging?.idle()
    expect(hanging?.stats().abortedRequests).toBe(1)
  })

  test('a route that is usually slow gets 4 times its usual time', async () => {
    const own = await pool(2)
    await preferFirst(own)
    const [patient] = own.nodes
    patient?.setAnswer({ firstTokenMs: 2 * firstChunkMs })
    await (await ask(own.model, { stream: true, svc: { node_id: own.nodeIds[0] } })).text()
    patient?.setAnswer({ firstTokenMs: 4 * firstChunkMs })
    const text = await (await ask(own.model, { stream: true })).text()
    expect(text).toContain('a-')
    expect(own.requests()).toEqual([2, 0])
  })

  test('the last route is not given up: it has until the deadline', async () => {
    const { model, nodes, requests } = await pool(1)
    nodes[0]?.setFaults({ kind: 'slowFirstToken', ms: 3 * firstChunkMs })
    const response = await ask(model, { stream: true })
    expect(await response.text()).toEndWith('data: [DONE]\n\n')
    expect(requests()).toEqual([1])
  })
})

describe('§8: passive ejection', () => {
  test('the only route of a model is never ejected', async () => {
    const { model, nodes } = await pool(1)
    const second = await gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${customer.customerId}/keys`,
      { name: 'second' },
    )
    nodes[0]?.setFaults({ kind: 'status500' })
    for (let at = 0; at < 12; at++) {
      await (await ask(model, {}, {}, at % 2 === 0 ? customer.key : second.gateway_key)).text()
    }
    nodes[0]?.clearFaults()
    expect((await ask(model)).status).toBe(200)
  })

  test('a failing route is ejected once two keys saw it, and the model goes on without it', async () => {
    const own = await pool(2)
    const { model, nodes, nodeIds, requests } = own
    // Also when the second has answered, which brings its prompts into that cache.
    await gateway.admin('PATCH', `/v1/admin/nodes/${nodeIds[1]}`, { rank: 1 })
    const second = await gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${customer.customerId}/keys`,
      { name: 'third' },
    )
    nodes[0]?.setFaults({ kind: 'status500' })
    const timesEjected = async () => (await seen(nodeIds[0] ?? '')).runtimes[0]?.models[0]?.times_ejected
    const askBoth = async () => {
      for (const key of [customer.key, second.gateway_key]) {
        const response = await ask(model, {}, {}, key)
        expect([response.status, (await response.text()).includes('b-')]).toEqual([200, true])
      }
    }
    await waitFor('the ejection', async () => {
      await askBoth()
      return (await timesEjected()) === 1
    })
    const before = requests()[0]
    expect(before).toBeGreaterThan(1)
    await askBoth()
    expect(requests()[0]).toBe(before)
  })

  test('where every route fails, all of them stay in use', async () => {
    const { model, nodes } = await pool(2)
    for (const node of nodes) node.setFaults({ kind: 'failAfter', ms: 0, as: 'reset' })
    for (let at = 0; at < 15; at++) await (await ask(model)).text()
    for (const node of nodes) node.clearFaults()
    const response = await ask(model)
    expect(response.status).toBe(200)
    await response.text()
  })
})

describe('§8: a lost node', () => {
  test('a refused connection makes it stale at once, without waiting for a poll', async () => {
    const own = await pool(2)
    await preferFirst(own)
    own.nodes[0]?.setFaults({ kind: 'refuse' })
    expect((await ask(own.model)).status).toBe(200)
    // No poll comes within the time that is waited for here.
    await waitFor('the table to follow', async () => (await seen(own.nodeIds[0] ?? '')).state === 'stale')
  })
})
