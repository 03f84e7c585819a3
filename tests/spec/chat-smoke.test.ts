import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateway.ts'

let gateway: TestGateway
let node: FakeNode
let customer: TestCustomer
beforeAll(async () => {
  gateway = await startTestGateway()
  node = startFakeNode({ models: ['m'] })
  customer = await gateway.customer()
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})

test('§5: a chat, whole', async () => {
  const response = await gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content: 'hi' }] })
  const body = await response.json()
  expect(response.status).toBe(200)
  expect(body).toMatchObject({ object: 'chat.completion', model: 'm' })
})

test('§6: a chat, streamed', async () => {
  const response = await gateway.chat(customer.key, {
    model: 'm',
    stream: true,
    messages: [{ role: 'user', content: 'hi' }],
  })
  const text = await response.text()
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
})
