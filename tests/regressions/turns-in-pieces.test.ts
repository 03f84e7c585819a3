import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeUsage, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: servers whose templates want user and assistant in turn refused conversations that Anthropic and OpenAI take.
 * Cause: consecutive turns of one role went to the node as they came, though Anthropic combines them. The gateway made some itself, where a
 * system message between two of them went to the head, and a text between a call and its result became a message of its own.
 * Fix: adjacent messages of the user and of the assistant are one message, and results of tools stand directly behind their calls.
 */
const gateway = await fixture(startTestGateway())
const { key, customerId } = await gateway.customer()
const node = await fixture(startScriptedNode())
await gateway.node(node.url, { customerId })
let sent: unknown
node.answer(({ body, respond }) => {
  sent = body.messages
  respond(200, { choices: [{ index: 0, message: { content: 'ok' }, finish_reason: 'stop' }], usage: nodeUsage })
})

async function sentBy(path: string, body: object): Promise<unknown> {
  const response = await postJson(gateway.url + path, key, { model: 'm', ...body })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  return sent
}
const ofMessages = (messages: readonly object[], more: object = {}) =>
  sentBy('/v1/messages', { max_tokens: 9, messages, ...more })
const ofResponses = (input: readonly object[]) => sentBy('/v1/responses', { input })

const user = (content: unknown) => ({ role: 'user', content })
const assistant = (content: unknown) => ({ role: 'assistant', content })
const toolUse = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} })
const toolResult = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: `seen ${id}` })
const call = (id: string) => ({ id, type: 'function', function: { name: 'look', arguments: '{}' } })
const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: `seen ${id}` })
const data = 'iVBORw0KGgo='
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } }
const picture = { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }
const text = (said: string) => ({ type: 'text', text: said })

test('§28: Messages: turns of one role are one message', async () => {
  expect(
    await ofMessages([user('a'), user([text('b'), text('c')]), assistant('d'), assistant('e'), user('f')]),
  ).toEqual([user('a\n\nb\n\nc'), assistant('d\n\ne'), user('f')])
  expect(await ofMessages([user('a'), user([image]), user([text('b')])])).toEqual([
    user([text('a'), picture, text('b')]),
  ])
})

test('§28: Messages: turns around a system message, which goes to the head, are one message', async () => {
  const system = { role: 'system', content: 'Be brief.' }
  expect(await ofMessages([user('a'), system, user('b')])).toEqual([system, user('a\n\nb')])
})

test('§28: Messages: calls of two turns are one message, and their results stand behind it', async () => {
  const messages = [
    user('look'),
    assistant([text('First'), toolUse('x')]),
    assistant([toolUse('y')]),
    user('Hurry.'),
    user([toolResult('x')]),
    user([toolResult('y'), text('What now?')]),
  ]
  expect(await ofMessages(messages)).toEqual([
    user('look'),
    { ...assistant('First'), tool_calls: [call('x'), call('y')] },
    result('x'),
    result('y'),
    user('Hurry.\n\nWhat now?'),
  ])
})

test('§28: Responses: a text between a call and its result is of the message that calls', async () => {
  const called = (id: string) => ({ type: 'function_call', call_id: id, name: 'look', arguments: '{}' })
  const seen = (id: string) => ({ type: 'function_call_output', call_id: id, output: `seen ${id}` })
  const input = [
    user('look'),
    called('x'),
    assistant('I look.'),
    user('Hurry.'),
    seen('x'),
    user('And?'),
    user('Well?'),
  ]
  expect(await ofResponses(input)).toEqual([
    user('look'),
    { ...assistant('I look.'), tool_calls: [call('x')] },
    result('x'),
    user('Hurry.\n\nAnd?\n\nWell?'),
  ])
})

test('§5: a chat goes to the node as its client wrote it', async () => {
  const messages = [user('a'), user('b'), assistant('c'), assistant('d'), user('e')]
  expect(await sentBy('/v1/chat/completions', { messages })).toEqual(messages)
})
