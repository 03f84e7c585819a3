import { afterAll, describe, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import type { RequestStory } from '../../src/protocol/wire/admin/requests.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { shownMetric } from '../support/gateways/metric.ts'
import { fixture } from '../support/run/fixture.ts'

const env = { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_METRICS_PUBLIC: 'true' }
const blockUnits = 1_024

const open: FakeNode[] = []

afterAll(async () => {
  for (const node of open) node.stop()
})
const first = await fixture(startTestGateway({ env }))
const second = await fixture(startTestGateway({ env, beside: first }))
const customer = await first.customer()

/** Nodes that have the model, known and ready on both gateways. */
async function nodesOf(model: string, count: number, more: object = {}): Promise<readonly string[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const node = startFakeNode({ models: [model], ...more })
      open.push(node)
      const id = await first.node(node.url, { customerId: customer.customerId })
      await waitFor('the node on the other gateway', async () => {
        const seen = await second.admin<Node>('GET', `/v1/admin/nodes/${id}`)
        return seen.state === 'ready'
      })
      return id
    }),
  )
}

/** Which node answered. */
async function nodeOf(gateway: TestGateway, body: object): Promise<string> {
  const response = await gateway.chat(customer.key, body)
  expect(response.status).toBe(200)
  await response.text()
  const id = response.headers.get('x-request-id')
  const { request } = await gateway.admin<RequestStory>('GET', `/v1/admin/requests/${id}`)
  return request.node_id ?? ''
}
const said = (content: string, role = 'user') => ({ role, content })
const text = (blocks: number) => crypto.randomUUID().padEnd(blockUnits, 'x').repeat(blocks)

describe('§29 several gateways', () => {
  test('send a new prompt to the same node without a word between them', async () => {
    await nodesOf('fresh', 4)
    const nodes = new Set<string>()
    for (let at = 0; at < 12; at++) {
      const body = { model: 'fresh', messages: [said(text(2))] }
      const [one, other] = [await nodeOf(first, body), await nodeOf(second, body)]
      expect(other).toBe(one)
      nodes.add(one)
    }
    // Which is not the same node for all of them.
    expect(nodes.size).toBeGreaterThan(1)
  })

  test('§18: what a full cache drops is counted', async () => {
    await nodesOf('small', 2, { speaks: 'llama.cpp', slots: 1, contextLength: 4_096 })
    const dropped = () => shownMetric(first, 'svc_cache_evictions_total')
    const before = await dropped()
    for (let at = 0; at < 12; at++) await nodeOf(first, { model: 'small', max_tokens: 1, messages: [said(text(8))] })
    // How much the cache holds is known from the next poll on.
    await waitFor('blocks are dropped', async () => (await dropped()) > before)
  })

  test('tell each other where long conversations are, and a short one they do not', async () => {
    const nodeIds = await nodesOf('long', 4)
    const heard = () => shownMetric(second, 'svc_placements_heard_total')
    const before = await heard()
    const begun = nodeIds.flatMap((nodeId) => [nodeId, nodeId]).map((nodeId) => ({ nodeId, opening: said(text(12)) }))
    for (const { nodeId, opening } of begun) {
      const body = { model: 'long', messages: [opening], svc: { node_id: nodeId } }
      expect(await nodeOf(first, body)).toBe(nodeId)
      // Eight blocks are not long.
      await nodeOf(first, { ...body, messages: [said(text(7))] })
    }
    await waitFor('what the first one tells', async () => (await heard()) - before >= begun.length)
    expect((await heard()) - before).toBe(begun.length)
    for (const { nodeId, opening } of begun) {
      const messages = [opening, said('yes', 'assistant'), said(text(1))]
      expect(await nodeOf(second, { model: 'long', messages })).toBe(nodeId)
    }
  })

  test('see what others sent in what a runtime says of its slots', async () => {
    const [busy = '', idle = ''] = await nodesOf('slots', 2, {
      speaks: 'llama.cpp',
      slots: 2,
      answer: { firstTokenMs: 200 },
    })
    const leave = new AbortController()
    const fakes = open.slice(-2)
    for (const node of fakes) node.setFaults({ kind: 'slowHeaders', ms: 60_000, scope: 'chat' })
    const held = [0, 1].map(() =>
      first
        .chat(
          customer.key,
          {},
          {
            signal: leave.signal,
            headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
            body: JSON.stringify({ model: 'slots', messages: [said('hi')], svc: { node_id: busy } }),
          },
        )
        .catch(() => null),
    )
    await waitFor('the second gateway to see it', async () => {
      const { runtimes } = await second.admin<Node>('GET', `/v1/admin/nodes/${busy}`)
      return runtimes[0]?.slots_free === 0
    })
    for (const node of fakes) node.clearFaults()
    for (let at = 0; at < 6; at++)
      expect(await nodeOf(second, { model: 'slots', messages: [said(text(2))] })).toBe(idle)
    leave.abort()
    await Promise.all(held)
  })
})
