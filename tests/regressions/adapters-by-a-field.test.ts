import { afterAll, expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { type AdapterNode, startAdapterNode } from '../support/nodes/adapter-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a key whose policy denies an adapter got it all the same, from a request for its base that named the adapter in `lora` or `lora_path`.
 * Cause: these fields of llama.cpp and SGLang were passed on with a request for a base.
 * Fix: where a server has adapters, a request for its base is passed on without them.
 */
const nodes: AdapterNode[] = []
afterAll(async () => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(startTestGateway())

test.each([
  ['llama.cpp', { lora: [{ id: 0, scale: 1 }] }],
  ['sglang', { lora_path: 'secret-sql' }],
] as const)('§37: an adapter of %s is got by its own name alone', async (speaks, field) => {
  const customer = await gateway.customer()
  const node = startAdapterNode({ speaks, base: 'tiny', adapters: ['secret-sql'] })
  nodes.push(node)
  await gateway.node(node.url, { customerId: customer.customerId })
  const { gateway_key: key } = await gateway.admin<{ gateway_key: string }>(
    'POST',
    `/v1/admin/customers/${customer.customerId}/keys`,
    { name: 'without adapters', model_policy: { denied_models: ['secret-*'] } },
  )
  const messages = [{ role: 'user', content: 'hi' }]
  const denied = await gateway.chat(key, { model: 'secret-sql', messages })
  expect([denied.status, await denied.text()]).toEqual([403, expect.stringContaining('model_not_allowed')])
  const response = await gateway.chat(key, { model: 'tiny', messages, ...field })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  expect(node.chats.map(({ model, lora, loraPath }) => [model, lora, loraPath])).toEqual([
    ['tiny', undefined, undefined],
  ])
})
