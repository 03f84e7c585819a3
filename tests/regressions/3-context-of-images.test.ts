import { expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['m'], contextLength: 8_192 }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })

/**
 * Symptom: requests with pictures or sound, and prompts of 75 % of a context, were refused before any node heard of them.
 * Cause: a picture counted 1,024 tokens, a sound the text of its bytes, and the estimate, up to 1.5 times what a tokenizer
 * counts, was taken for the truth.
 * Fix: only a lower bound of the text refuses; what a node can hold beyond that, the node says.
 */
const image = { type: 'image_url', image_url: { url: 'http://a/b' } }
const sound = { type: 'input_audio', input_audio: { data: 'A'.repeat(300_000), format: 'wav' } }
test.each([
  ['eight pictures by their address', Array.from({ length: 8 }, () => image)],
  ['a sound of 300 kB', [{ type: 'text', text: 'what is said?' }, sound]],
  ['a text of 7,800 tokens by the estimate, and 1.2 times the context by another', 'word '.repeat(6_500)],
  ['a text just below the lower bound', 'x'.repeat(68_266)],
])('%s: goes to a node with a context of 8,192', async (_name, content) => {
  const before = node.requests.length
  const response = await gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content }] })
  expect(response.status).toBe(200)
  await response.text()
  expect(node.requests).toHaveLength(before + 1)
})

test('a text above the lower bound, 0.12 tokens for each unit, goes nowhere', async () => {
  const before = node.requests.length
  const messages = [{ role: 'user', content: 'x'.repeat(68_275) }]
  const response = await gateway.chat(customer.key, { model: 'm', messages })
  expect(await response.json()).toMatchObject({ error: { code: 'context_length_exceeded' } })
  expect(node.requests).toHaveLength(before)
})
