import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { type FakeNode, type FakeNodeOptions, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateway.ts'

const firstChunkMs = 300

let gateway: TestGateway
let customer: TestCustomer
beforeAll(async () => {
  gateway = await startTestGateway({
    env: {
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
      SVC_FAILOVER_FIRST_CHUNK_MS: String(firstChunkMs),
      SVC_PROBE_TIMEOUT_MS: '300',
      SVC_METRICS_PUBLIC: 'true',
    },
  })
  customer = await gateway.customer()
})
afterAll(() => gateway.stop())

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
  return { model, nodes, nodeIds, requests: () => nodes.map((node) => node.stats().requests) }
}

let asked = 0
/** Each with a conversation of its own, so that no prefix draws it to a node. */
const ask = (model: string, more: object = {}, init: RequestInit = {}, key = customer.key) =>
  gateway.chat(key, { model, messages: [{ role: 'user', content: `${asked++} asks` }], ...more }, init)
/** One alone goes to the lightest route; several spread. Every other one with `otherKey`. */
async function atOnce(model: string, otherKey = customer.key): Promise<readonly number[]> {
  const responses = await Promise.all(
    Array.from({ length: 8 }, (_, at) => ask(model, {}, {}, at % 2 === 0 ? customer.key : otherKey)),
  )
  await Promise.all(responses.map((response) => response.text()))
  return responses.map(({ status }) => status)
}
async function upstreamFailures(): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  return sum([...text.matchAll(/^svc_upstream_failures_total\{[^}]*\} (\d+)$/gm)].map((match) => Number(match[1])))
}
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
    test(`${name}: another node answers, streamed and whole`, async () => {
      const { model, nodes, requests } = await pool(2)
      const before = await upstreamFailures()
      nodes[0]?.setFaults(fault)
      // Several at once, so that the load puts some of them on the failing node.
      const answers = await Promise.all(Array.from({ length: 8 }, (_, at) => ask(model, { stream: at % 2 === 0 })))
      for (const response of answers) {
        expect(response.status).toBe(200)
        expect(await response.text()).toContain('b-')
      }
      expect(await upstreamFailures()).toBeGreaterThan(before)
      expect(requests()[1]).toBe(8)
    })
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

  test('a pinned request has no other route', async () => {
    const { model, nodes, nodeIds, requests } = await pool(2)
    nodes[0]?.setFaults({ kind: 'status500' })
    const response = await ask(model, { svc: { node_id: nodeIds[0] } })
    expect(response.status).toBe(502)
    await response.text()
    expect(requests()).toEqual([1, 0])
  })

  test('what the node refuses as the request itself is not tried elsewhere', async () => {
    const { model, nodes, requests } = await pool(2)
    for (const node of nodes) node.setFaults({ kind: 'status400' })
    const response = await ask(model)
    expect(response.status).toBe(400)
    expect((await errorOf(response)).code).toBe('invalid_request')
    expect(sum(requests())).toBe(1)
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

  test('after the first byte there is no failover, but an error event', async () => {
    const { model, nodes, requests } = await pool(2)
    for (const node of nodes) node.setFaults({ kind: 'dropMidStream', afterChunks: 2 })
    const response = await ask(model, { stream: true })
    const text = await response.text()
    expect(response.status).toBe(200)
    expect(text).toContain('"finish_reason":"error"')
    expect(text).toContain('"code":"node_lost"')
    expect(text).not.toContain('[DONE]')
    expect(sum(requests())).toBe(1)
  })
})

describe('§5: patience for the first chunk', () => {
  test('a node that hangs is given up after the bound, and its call ended', async () => {
    const { model, nodes, nodeIds, requests } = await pool(2)
    const [hanging, other] = nodes
    // Measured once each: the next choice is the first.
    other?.setAnswer({ firstTokenMs: 100 })
    for (const node_id of nodeIds) await (await ask(model, { stream: true, svc: { node_id } })).text()
    hanging?.setFaults({ kind: 'hang' })
    const beganMs = performance.now()
    expect(await (await ask(model, { stream: true })).text()).toContain('b-')
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(firstChunkMs)
    expect(requests()).toEqual([2, 2])
    await hanging?.idle()
    expect(hanging?.stats().abortedRequests).toBe(1)
  })

  test('a route that is usually slow gets 4 times its usual time', async () => {
    const { model, nodes, nodeIds, requests } = await pool(2)
    const [patient, other] = nodes
    patient?.setAnswer({ firstTokenMs: 200 })
    other?.setAnswer({ firstTokenMs: 600 })
    // Measured once each; the second is the heavier choice of the two from then on.
    for (const node_id of nodeIds) await (await ask(model, { stream: true, svc: { node_id } })).text()
    patient?.setAnswer({ firstTokenMs: 500 })
    const text = await (await ask(model, { stream: true })).text()
    expect(text).toContain('a-')
    expect(requests()).toEqual([2, 1])
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
    const { model, nodes, nodeIds, requests } = await pool(2)
    const second = await gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${customer.customerId}/keys`,
      { name: 'third' },
    )
    nodes[0]?.setFaults({ kind: 'status500' })
    const timesEjected = async () => (await seen(nodeIds[0] ?? '')).runtimes[0]?.models[0]?.times_ejected
    await waitFor('the ejection', async () => {
      const statuses = await atOnce(model, second.gateway_key)
      expect(statuses).toEqual(statuses.map(() => 200))
      return (await timesEjected()) === 1
    })
    const before = requests()[0]
    await atOnce(model, second.gateway_key)
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
    const { model, nodes, nodeIds } = await pool(2)
    nodes[0]?.setFaults({ kind: 'refuse' })
    const goneMs = performance.now()
    await waitFor('the table to follow', async () => {
      expect(await atOnce(model)).not.toContain(502)
      return (await seen(nodeIds[0] ?? '')).state === 'stale'
    })
    expect(performance.now() - goneMs).toBeLessThan(1_000)
  })

  test('it serves again after its hysteresis', async () => {
    const { model, nodes, nodeIds, requests } = await pool(2)
    nodes[0]?.setFaults({ kind: 'refuse' })
    await waitFor('stale', async () => (await seen(nodeIds[0] ?? '')).state === 'stale')
    nodes[0]?.clearFaults()
    await waitFor('ready', async () => (await seen(nodeIds[0] ?? '')).state === 'ready')
    const before = requests()[0] ?? 0
    await waitFor('traffic', async () => {
      await atOnce(model)
      return (requests()[0] ?? 0) > before
    })
  })
})
