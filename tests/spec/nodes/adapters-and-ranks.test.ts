import { afterEach, expect, test } from 'bun:test'
import type { Explanation } from '../../../src/protocol/wire/admin/explanation.ts'
import { startTestGateway, type TestCustomer, waitFor } from '../../support/gateways/gateway.ts'
import { type AdapterNode, type AdapterOptions, startAdapterNode } from '../../support/nodes/adapter-node.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { fixture } from '../../support/run/fixture.ts'

let customer: TestCustomer
const cleanups: (() => unknown)[] = []

const gateway = await fixture(startTestGateway())

afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** A node of a customer of its own. */
async function pool(options: AdapterOptions): Promise<{ readonly node: AdapterNode; readonly nodeId: string }> {
  customer = await gateway.customer()
  const node = startAdapterNode(options)
  cleanups.push(() => node.stop())
  const nodeId = await gateway.node(node.url, { customerId: customer.customerId })
  return { node, nodeId }
}

/** Resolves with the id of the answered request. */
async function ask(model: string, content = 'hi', more: object = {}): Promise<string> {
  const response = await gateway.chat(customer.key, { model, messages: [{ role: 'user', content }], ...more })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
  return response.headers.get('x-request-id') ?? ''
}

const listed = async (): Promise<readonly string[]> => {
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${customer.key}` } })
  const { data } = (await response.json()) as { readonly data: readonly { readonly id: string }[] }
  return data.map(({ id }) => id).toSorted()
}

test('§37: an adapter that vLLM loads while it runs is a model of its own, and gone when it is unloaded', async () => {
  const { node, nodeId } = await pool({ speaks: 'vllm', base: 'llama', adapters: ['sql'] })
  await ask('sql')
  expect(node.chats).toMatchObject([{ model: 'sql', rank: null }])
  const body = JSON.stringify({ lora_name: 'poems', lora_path: '/adapters/poems' })
  const headers = { 'content-type': 'application/json' }
  await fetch(`${node.url}/v1/load_lora_adapter`, { method: 'POST', body, headers })
  await waitFor('the new adapter', async () => (await listed()).includes('poems'))
  await ask('poems')
  await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/models/unload`, { model: 'sql' })
  await waitFor('the end of the old one', async () => !(await listed()).includes('sql'))
  expect(node.told).toEqual(['/v1/load_lora_adapter', '/v1/unload_lora_adapter'])
  expect([...node.adapters]).toEqual(['poems'])
  await ask('llama')
  expect(node.chats.map(({ model }) => model)).toEqual(['sql', 'poems', 'llama'])
})

test('§37: an adapter of llama.cpp is asked for by its number and scale, and its base as the server was started', async () => {
  const { node } = await pool({ speaks: 'llama.cpp', base: 'tiny', adapters: ['sql', 'poems'] })
  expect(await listed()).toEqual(['poems', 'sql', 'tiny'])
  await ask('sql')
  await ask('poems', 'hi', { stream: true })
  await ask('tiny')
  // The name says which adapter is meant, whatever else a client writes.
  await ask('poems', 'hi', { lora: [{ id: 0, scale: 9 }], temperature: 0.5 })
  expect(node.chats.map(({ model, lora }) => [model, lora])).toEqual([
    ['sql', [{ id: 0, scale: 1 }]],
    ['poems', [{ id: 1, scale: 0.5 }]],
    ['tiny', undefined],
    ['poems', [{ id: 1, scale: 0.5 }]],
  ])
  await waitFor('further polls', () => (node.asked.get('/health') ?? 0) > 3)
  expect(node.asked.get('/lora-adapters')).toBe(1)
})

test('§37: an adapter of SGLang is named in lora_path', async () => {
  const { node } = await pool({ speaks: 'sglang', base: 'qwen', adapters: ['sql'] })
  await ask('sql')
  await ask('qwen')
  expect(node.chats.map(({ model, loraPath }) => [model, loraPath])).toEqual([
    ['sql', 'sql'],
    ['qwen', undefined],
  ])
})

test('§37: an agent asks its llama.cpp for the adapter, and says whose it is', async () => {
  customer = await gateway.customer()
  const node = startAdapterNode({ speaks: 'llama.cpp', base: 'tiny', adapters: ['sql'] })
  cleanups.push(() => node.stop())
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [node.url] })
  cleanups.push(() => agent.remove())
  await untilState(gateway, agent.nodeId, 'ready')
  await ask('sql')
  await ask('tiny')
  expect(node.chats.map(({ model, lora }) => [model, lora])).toEqual([
    ['sql', [{ id: 0, scale: 1 }]],
    ['tiny', undefined],
  ])
})

for (const speaks of ['vllm', 'sglang'] as const) {
  test(`§37: each data-parallel rank of ${speaks} is a route with a cache of its own, and a request names the one it was placed on`, async () => {
    const { node, nodeId } = await pool({ speaks, base: 'moe', adapters: ['sql'], ranks: 3 })
    const { nodes } = await gateway.admin<{
      nodes: {
        node_id: string
        runtimes: { queue_depth: number | null; models: { model: string; model_profile_id: string }[] }[]
      }[]
    }>('GET', '/v1/admin/nodes')
    const { runtimes = [] } = nodes.find(({ node_id }) => node_id === nodeId) ?? {}
    expect(runtimes.map(({ queue_depth, models }) => [queue_depth, models.map(({ model }) => model)])).toEqual(
      Array(3).fill([0, ['moe', 'sql']]),
    )
    const profiles = runtimes.map(({ models: [base] }) => base?.model_profile_id)
    for (let story = 0; story < 6; story++) {
      const content = `${story} `.repeat(2_000)
      await ask('moe', content, { stream: true })
      const first = Number(node.chats.at(-1)?.rank)
      const { tries } = await gateway.admin<Explanation>(
        'GET',
        `/v1/admin/explain?request_id=${await ask('moe', `${content} and then`, { stream: true })}`,
      )
      const shares = new Map(
        tries[0]?.routes.map(({ model_profile_id: id, cost }) => [id, (cost?.matched_share ?? 0) > 0.9]),
      )
      expect(profiles.map((id) => shares.get(id ?? ''))).toEqual([0, 1, 2].map((rank) => rank === first))
      const chosen = tries[0]?.routes.find(({ verdict }) => verdict === 'chosen')?.model_profile_id
      expect(profiles.indexOf(chosen)).toBe(Number(node.chats.at(-1)?.rank))
    }
  })
}
