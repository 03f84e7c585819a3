import { afterAll, expect, test } from 'bun:test'
import { foreignJsonExactly } from '../../src/protocol/json/exact-numbers.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a tool was called with 9007199254740992 where the model had said 9007199254740993, and the model was told that it had
 * said so.
 * Cause: Messages and Ollama have the input of a call as JSON, chat has its text: each was parsed and written again, which rounds
 * integers beyond 2^53.
 * Fix: where a number would lose digits, it is written as it came.
 */
const gateway = await fixture(startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0' } }))
const { key, customerId } = await gateway.customer()
const input =
  '{"id":9007199254740993,"ids":[-12345678901234567890,1],"ratio":0.12345678901234567891,"sum":1234567890.12345678,"text":"9007199254740993"}'
const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: input } }
/** As text: parsed, it would have lost what the test looks for. */
let sent = ''
const node = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    if (request.method === 'GET') return Response.json({ object: 'list', data: [{ id: 'm', object: 'model' }] })
    sent = await request.text()
    const message = { role: 'assistant', content: null, tool_calls: [call] }
    return Response.json({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }] })
  },
})
afterAll(() => node.stop(true))
await gateway.node(`http://127.0.0.1:${node.port}`, { customerId })

async function post(path: string, body: string): Promise<string> {
  const base = path.startsWith('/api') ? gateway.ollamaUrl : gateway.url
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await fetch(base + path, { method: 'POST', headers, body })
  const text = await response.text()
  expect([response.status, text]).toEqual([200, expect.any(String)])
  return text
}

const schema = '{"type":"object","properties":{"id":{"type":"integer","maximum":9223372036854775807}}}'
const messagesOf = (called: string) =>
  `[{"role":"user","content":"look"},{"role":"assistant","content":${called}},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"seen"}]}]`
const ofMessages = `{"model":"m","max_tokens":9,"messages":${messagesOf(`[{"type":"tool_use","id":"call_1","name":"look","input":${input}}]`)},"tools":[{"name":"look","input_schema":${schema}}]}`
const ofOllama = `{"model":"m","stream":false,"messages":[{"role":"user","content":"look"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"look","arguments":${input}}}]},{"role":"tool","tool_name":"look","content":"seen"}],"tools":[{"type":"function","function":{"name":"look","parameters":${schema}}}]}`
const ofResponses = `{"model":"m","input":"look","tools":[{"type":"function","name":"look","parameters":${schema}}]}`

test.each([
  ['Messages', '/v1/messages', ofMessages, `"input":${input}`],
  ['Ollama', '/api/chat', ofOllama, `"arguments":${input}`],
])('§28: %s: the input of a call keeps its digits, from the model and back to it', async (_, path, body, written) => {
  expect(await post(path, body)).toContain(written)
  expect(sent).toContain(`"arguments":${JSON.stringify(input)}`)
})

test('§28: an input of many values is not held up by its digits', async () => {
  const many = `{"ids":[${Array.from({ length: 3_000 }, () => '9007199254740993').join()}]}`
  const called = `[{"type":"tool_use","id":"call_1","name":"look","input":${many}}]`
  await post('/v1/messages', `{"model":"m","max_tokens":9,"messages":${messagesOf(called)}}`)
  expect(sent).toContain(JSON.stringify(many))
  expect(foreignJsonExactly(many)).toEqual({ ids: Array.from({ length: 3_000 }, () => 9_007_199_254_740_992) })
})

test.each([
  ['Messages', '/v1/messages', ofMessages],
  ['Ollama', '/api/chat', ofOllama],
  ['Responses', '/v1/responses', ofResponses],
])('§28: %s: the bounds of a tool’s schema keep their digits', async (_, path, body) => {
  await post(path, body)
  expect(sent).toContain('"maximum":9223372036854775807')
})
