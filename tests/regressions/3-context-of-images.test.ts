import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateway.ts'

let gateway: TestGateway
let node: FakeNode
let customer: TestCustomer
beforeAll(async () => {
  gateway = await startTestGateway()
  node = startFakeNode({ models: ['m'], contextLength: 8_192 })
  customer = await gateway.customer()
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})

/**
 * Symptom: a request with more images than the model's context holds went to the node.
 * Cause: the prompt is estimated only where the length of the body makes it possible that the context is exceeded, and
 * an image that is named by its address counts 1,024 tokens in some 50 characters.
 * Fix: a request with parts is always estimated.
 */
test('§7: eight images by their address are too many for 8,192 tokens', async () => {
  const image = { type: 'image_url', image_url: { url: 'http://a/b' } }
  const content = Array.from({ length: 8 }, () => image)
  const response = await gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content }] })
  expect(await response.json()).toMatchObject({ error: { code: 'context_length_exceeded' } })
  expect(node.requests).toHaveLength(0)
})
