import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer({ policy: { daily_token_quota: 1_000 } })
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

/**
 * Symptom: text in `reasoning_content`, `name` or an unknown member cost a 200th of the same text in `content`.
 * Cause: the estimate, by which quotas and quotes go, looked at `content` and `tool_calls` alone; all members are forwarded.
 * Fix: every member that a node gets counts.
 */
const text = 'some words that a model reads. '.repeat(200)
test.each([
  ['content', { content: text }],
  ['reasoning_content', { content: '', reasoning_content: text }],
  ['name', { content: '', name: text }],
  ['an unknown member', { content: '', more: [{ deep: text }] }],
  ['the name of one', { content: '', [text]: 1 }],
  ['a part beside its text', { content: [{ type: 'text', text: '', more: text }] }],
  ['a part beside its picture', { content: [{ type: 'image_url', image_url: { url: 'http://a/b' }, more: text }] }],
])('%s: the quota of 1,000 tokens is too small for it', async (_name, message) => {
  const response = await gateway.chat(customer.key, {
    model: 'm',
    max_tokens: 1,
    messages: [{ role: 'user', ...message }],
  })
  expect(await response.json()).toMatchObject({ error: { code: 'daily_token_quota_exceeded' } })
  expect(node.calls).toBe(0)
})
