import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a completion with two different bounds of its answer passed a policy that the larger one exceeds.
 * Cause: policy, quota and quote go by `max_tokens`, and the node was sent both and may go by `max_completion_tokens`. Only chat refused that.
 * Fix: completions refuse it, too.
 */
const policy = { max_tokens_per_request: 50 }
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer({ policy })
const node = await fixture(startScriptedNode())
await gateway.node(node.url, { customerId: customer.customerId })

test.each([
  ['completions', { prompt: 'a' }],
  ['chat/completions', { messages: [{ role: 'user', content: 'a' }] }],
])('§5: %s: both names of the bound have one value', async (path, body) => {
  const ask = (more: object) => postJson(`${gateway.url}/v1/${path}`, customer.key, { model: 'm', ...body, ...more })
  const before = node.calls
  const refused = await ask({ max_tokens: 5, max_completion_tokens: 500 })
  const { error } = (await refused.json()) as { error: { param: string } }
  expect([refused.status, error.param, node.calls]).toEqual([400, 'max_completion_tokens', before])
  const choice = { index: 0, text: 'b', message: { role: 'assistant', content: 'b' }, finish_reason: 'stop' }
  node.answer((call) => call.respond(200, { choices: [choice] }))
  expect((await ask({ max_tokens: 5, max_completion_tokens: 5 })).status).toBe(200)
})
