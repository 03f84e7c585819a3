import { afterEach, describe, expect, test } from 'bun:test'
import { patient, startGatewayWithPulse } from '../hostile/world/hostile-gateway.ts'
import { type TestCustomer, waitFor } from '../support/gateways/gateway.ts'
import { type AdapterNode, type AdapterOptions, startAdapterNode } from '../support/nodes/adapter-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: metrics of 1 MiB, in the answer to a poll, held up the gateway's event loop for 2 s. Of a server with more than 64 ranks the
 * gateway used the first 64 alone. A server whose metrics did not come once lost all its ranks but the first, and what was known
 * of their caches.
 * Cause: the metrics were searched from their beginning for each rank. No more series were read than ranks are told apart, so that what was
 * cut short looked whole. Ranks were known from one poll alone.
 * Fix: the series of a gauge are read once, and name no ranks where there are more than are read; ranks stay until metrics say otherwise.
 */
let customer: TestCustomer
const nodes: AdapterNode[] = []
const gateway = await fixture(startGatewayWithPulse(patient))

afterEach(() => {
  for (const node of nodes.splice(0)) node.stop()
})

async function joined(options: AdapterOptions) {
  customer = await gateway.customer()
  const node = startAdapterNode(options)
  nodes.push(node)
  return { node, nodeId: await gateway.node(node.url, { customerId: customer.customerId }) }
}

/** How many models each runtime of the node has. */
async function modelsOf(nodeId: string): Promise<readonly number[]> {
  const { nodes: all } = await gateway.admin<{ nodes: { node_id: string; runtimes: { models: unknown[] }[] }[] }>(
    'GET',
    '/v1/admin/nodes',
  )
  return all.find(({ node_id }) => node_id === nodeId)?.runtimes.map(({ models }) => models.length) ?? []
}

async function ask(model: string): Promise<void> {
  const response = await gateway.chat(customer.key, { model, messages: [{ role: 'user', content: 'hi' }] })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
}

/** Two more answers to polls. */
async function polledTwice(node: AdapterNode): Promise<void> {
  const before = node.asked.get('/metrics') ?? 0
  await waitFor('further polls', () => (node.asked.get('/metrics') ?? 0) >= before + 3)
}

describe.each(['vllm', 'sglang'] as const)('§37: the data-parallel ranks of %s', (speaks) => {
  test('are not told apart where they are more than can be', async () => {
    for (const ranks of [65, 300]) {
      const model = `moe-${ranks}`
      const { node, nodeId } = await joined({ speaks, base: model, ranks })
      expect(await modelsOf(nodeId)).toEqual([1])
      await ask(model)
      expect(node.chats.map(({ rank }) => rank)).toEqual([null])
    }
  })

  test('stay while the server gives no metrics', async () => {
    let silent = false
    const { node, nodeId } = await joined({
      ...{ speaks, base: 'moe', ranks: 3 },
      metrics: (usual) => (silent ? null : usual),
    })
    silent = true
    await polledTwice(node)
    expect(await modelsOf(nodeId)).toEqual([1, 1, 1])
    await ask('moe')
    expect(node.chats.map(({ rank }) => rank)).toEqual([expect.stringMatching(/^[012]$/)])
  })

  test('end when the server has one engine', async () => {
    let fewer = false
    const one = (usual: string) => usual.split('\n').filter((line) => line.includes('="0"'))
    const { node, nodeId } = await joined({
      ...{ speaks, base: 'moe', ranks: 3 },
      metrics: (usual) => (fewer ? one(usual).join('\n') : usual),
    })
    fewer = true
    await polledTwice(node)
    expect(await modelsOf(nodeId)).toEqual([1])
  })
})

test('§37: ranks are looked for in metrics of 1 MiB without holding others up', async () => {
  const filling = 'vllm:cache_config_info{\n'
  const before = gateway.stalls.length
  const { node } = await joined({
    ...{ speaks: 'vllm', base: 'moe', ranks: 64 },
    metrics: (usual) =>
      `${usual.replaceAll(/vllm:cache_config_info.*\n?/g, '')}\n${filling.repeat(Math.floor(1_000_000 / filling.length))}`,
  })
  await polledTwice(node)
  await gateway.pulse()
  expect(gateway.stalls.slice(before)).toEqual([])
})
