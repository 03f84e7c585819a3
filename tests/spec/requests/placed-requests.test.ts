import { afterAll, describe, expect, test } from 'bun:test'
import type { RequestStory } from '../../../src/protocol/wire/admin/requests.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { type OllamaNode, startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { fixture } from '../../support/run/fixture.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'

const nodes: OllamaNode[] = []

async function add(options: Parameters<typeof startOllamaNode>[0]): Promise<OllamaNode> {
  const node = startOllamaNode(options)
  nodes.push(node)
  await gateway.node(node.url, { customerId: customer.customerId })
  return node
}

afterAll(async () => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()

async function ask(model: string, content: string, more: object = { stream: true }): Promise<string> {
  const response = await gateway.chat(customer.key, { model, messages: [{ role: 'user', content }], ...more })
  expect(response.status).toBe(200)
  await response.text()
  return response.headers.get('x-request-id') ?? ''
}

const story = (id: string) => gateway.admin<RequestStory>('GET', `/v1/admin/requests/${id}`)

describe('§32 what a request keeps of its placement', () => {
  test('the share of its prompt that the node says it had in its cache', async () => {
    await add({ models: ['told'], cachedTokens: 620 })
    for (const more of [{ stream: true }, {}]) {
      const { request } = await story(await ask('told', 'hello', more))
      expect(request.cache_percent).toBe(62)
    }
  })

  test('where the node says nothing, nothing: what the choice went by is a belief, and stands in `explain` alone', async () => {
    await add({ models: ['silent', 'alone'] })
    await add({ models: ['silent'] })
    const prompt = crypto.randomUUID().repeat(100)
    const first = await story(await ask('silent', prompt))
    const again = await story(await ask('silent', prompt))
    expect(first.request.cache_percent).toBeNull()
    expect(again.request.cache_percent).toBeNull()
    expect(again.request.node_id).toBe(first.request.node_id)
    const costs = again.explain?.tries[0]?.routes.map(({ verdict, cost }) => [verdict, cost?.matched_share ?? -1]) ?? []
    expect(costs.find(([verdict]) => verdict === 'chosen')?.[1]).toBeGreaterThan(0.9)
    expect((await story(await ask('alone', prompt))).request.cache_percent).toBeNull()
  })

  test('how long it waited for its model; one in memory is waited for by nobody', async () => {
    const node = await add({ models: ['cold'], holdLoads: true })
    const sinceMs = stopwatch()
    const asked = ask('cold', 'hello')
    await waitFor('the load', () => node.waiting === 1)
    node.finishLoads()
    const { request } = await story(await asked)
    expect(request.load_ms).toBeGreaterThan(0)
    // A part of what has passed, however long that was.
    expect(request.load_ms).toBeLessThanOrEqual(Math.ceil(sinceMs()))
    // One clock has whole milliseconds.
    expect(request.load_ms).toBeLessThanOrEqual((request.ttft_ms ?? 0) + 1)
    expect((await story(await ask('cold', 'hello'))).request.load_ms).toBeNull()
  })
})
