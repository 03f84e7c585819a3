import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeChunk, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Found by reading: a node that put its last word into the finish chunk, told no usage, sent no `[DONE]` and kept its
 * connection open never ended an answer of Messages or Responses: the time to hold a finish did not begin, the stream failed
 * as idle, and the route was blamed. Fix: a finish that is passed on at once is a finish all the same.
 */
const gateway = await fixture(
  startTestGateway({ env: { SVC_FINISH_HOLD_MS: '50', SVC_INTER_CHUNK_TIMEOUT_MS: '6000' } }),
)
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })
node.answer(async (call) => {
  call.open()
  await call.event(nodeChunk({ role: 'assistant', content: 'The' }))
  await call.event(nodeChunk({ content: ' end' }, 'stop'))
})

const messages = [{ role: 'user', content: 'hi' }]
test.each([
  ['messages', { messages, max_tokens: 9 }, 'message_stop'],
  ['responses', { input: 'hi' }, 'response.completed'],
  ['chat/completions', { messages }, '[DONE]'],
])(
  '§6: a stream of %s ends where the finish chunk has the last word and nothing follows it',
  async (path, body, end) => {
    const response = await postJson(`${gateway.url}/v1/${path}`, customer.key, { model: 'm', stream: true, ...body })
    const text = await response.text()
    expect(text).toContain(' end')
    expect(text).toContain(end)
    expect(text).not.toContain('stream_idle')
  },
)
