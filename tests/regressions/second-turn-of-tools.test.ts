import { beforeEach, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions'
import { createPrivateJobs } from '../../src/client/private-jobs.ts'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../support/nodes/agents.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { nodeChunk, nodeUsage, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'

/**
 * Symptom: the loops of tools of Haystack, async-openai and openai-go ended at their second turn with 400, and so did every
 * loop on a node that leaves `content` out of its calls. Cause: `content` had to be there, and `developer` was no role.
 * Fix: an assistant's message that calls tools may leave it out, and nodes are sent `null`; `developer` is sent as `system`.
 */

/** The name makes the `ai` SDK send its system prompt as `developer`. */
const reasoner = 'gpt-5-home'
/** What the nodes were sent, in order. */
let sent: Record<string, unknown>[] = []

const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":"sky"}' } } as const

interface SentMessage {
  readonly role: string
  readonly content?: unknown
  readonly tool_calls?: unknown
}
const sentMessages = (at = -1) => sent.at(at)?.messages as readonly SentMessage[]

/** Calls the tool once, without any content, and then answers. */
function loops(scripted: ScriptedNode): void {
  scripted.answer(async ({ body, open, event, end, respond }) => {
    sent.push(body)
    const answers = (body.messages as readonly SentMessage[]).some(({ role }) => role === 'tool') || body.tools == null
    const finish = answers ? 'stop' : 'tool_calls'
    if (body.stream !== true) {
      const message = answers ? { role: 'assistant', content: 'blue' } : { role: 'assistant', tool_calls: [call] }
      return respond(200, { choices: [{ index: 0, message, finish_reason: finish }], usage: nodeUsage })
    }
    open()
    await event(nodeChunk(answers ? { content: 'blue' } : { role: 'assistant', tool_calls: [{ index: 0, ...call }] }))
    await event(nodeChunk({}, finish, { usage: nodeUsage }))
    await event('[DONE]')
    end()
  })
}

const gateway = await fixture(startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
const thinking = await fixture(startScriptedNode(reasoner))
for (const { url } of [node, thinking]) await gateway.node(url, { customerId: customer.customerId })
const client = new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

beforeEach(() => {
  sent = []
  for (const scripted of [node, thinking]) loops(scripted)
})

/** The second turn as openai-go, async-openai and Haystack write it: a call has no `content` at all. */
const secondTurn: ChatCompletionMessageParam[] = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: 'What colour is it?' },
  { role: 'assistant', tool_calls: [call] },
  { role: 'tool', tool_call_id: 'call_1', content: 'blue' },
]
const asNodesTakeIt = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'What colour is it?' },
  { role: 'assistant', tool_calls: [call], content: null },
  { role: 'tool', tool_call_id: 'call_1', content: 'blue' },
]

describe('§5: the second turn of a loop of tools', () => {
  test('messages of SDKs that leave content out, whole and streamed; all else goes on to the letter', async () => {
    const whole = await client.chat.completions.create({ model: 'm', messages: secondTurn, seed: 7 })
    expect(whole.choices[0]?.message.content).toBe('blue')
    expect(sent.at(-1)).toEqual({ model: 'm', messages: asNodesTakeIt, seed: 7 })
    const stream = await client.chat.completions.create({ model: 'm', messages: secondTurn, stream: true })
    let text = ''
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    expect(text).toBe('blue')
    expect(sentMessages()).toEqual(asNodesTakeIt)
  })

  const look = {
    type: 'function',
    function: {
      name: 'look',
      description: 'x',
      parameters: { type: 'object', properties: { at: { type: 'string' } } },
      parse: JSON.parse,
      function: ({ at }: { at: string }) => `${at}: blue`,
    },
  } as const

  test('the openai SDK’s runTools, whole and streamed, on a node that leaves content out of its calls', async () => {
    const asked = { model: 'm', messages: secondTurn.slice(0, 2), tools: [look] }
    expect(await client.chat.completions.runTools(asked).finalContent()).toBe('blue')
    expect(await client.chat.completions.runTools({ ...asked, stream: true }).finalContent()).toBe('blue')
    for (const at of [1, 3]) {
      expect(sentMessages(at)).toMatchObject([
        { role: 'system' },
        { role: 'user' },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', content: 'sky: blue' },
      ])
    }
  })

  test('the ai SDK’s loop, whole and streamed, with the role that it uses for models that reason', async () => {
    const model = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: customer.key }).chat(reasoner)
    const inputSchema = jsonSchema<{ at: string }>({ type: 'object', properties: { at: { type: 'string' } } })
    const tools = { look: tool({ description: 'x', inputSchema, execute: ({ at }) => `${at}: blue` }) }
    const options = { model, system: 'Be brief.', prompt: 'Colour?', tools, stopWhen: stepCountIs(2) }
    expect((await generateText(options)).text).toBe('blue')
    const streamed = streamText(options)
    await streamed.consumeStream()
    expect(await streamed.text).toBe('blue')
    expect(sent.map((_, at) => sentMessages(at)[0])).toEqual(Array(4).fill({ role: 'system', content: 'Be brief.' }))
  })

  test('a mixture: every expert is sent the same', async () => {
    const svc = { mixture: { strategy: 'vote', experts: [{ model: 'm' }, { model: reasoner }] } }
    const answer = await client.chat.completions.create({ model: 'm', messages: secondTurn, svc } as never)
    expect((answer as OpenAI.ChatCompletion).choices[0]?.message.content).toBe('blue')
    expect(sent.map((_, at) => sentMessages(at))).toEqual([asNodesTakeIt, asNodesTakeIt])
  })

  test('the agent’s own door', async () => {
    await using agent = await scoped(startLoneAgent({ runtimes: [node.url] }))
    const local = new OpenAI({ apiKey: agent.localToken, baseURL: `${agent.node.url}/v1`, maxRetries: 0 })
    const answer = await local.chat.completions.create({ model: 'm', messages: secondTurn })
    expect(answer.choices[0]?.message.content).toBe('blue')
    expect(sentMessages()).toEqual(asNodesTakeIt)
  })

  test('a private job', async () => {
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
    await using agent = await scoped(startAgent({ gatewayUrl: gateway.url, token, runtimes: [node.url] }))
    await untilState(gateway, agent.nodeId, 'ready')
    const jobs = createPrivateJobs({ baseUrl: gateway.url, ...customer })
    const target = { nodeId: agent.nodeId, fingerprint: agent.node.fingerprint, modelId: 'm' }
    const outcome = await jobs.wait(await jobs.submit({ ...target, chat: { messages: secondTurn } }), { pollMs: 20 })
    expect(outcome).toMatchObject({ answer: { choices: [{ message: { content: 'blue' } }] } })
    expect(sentMessages()).toEqual(asNodesTakeIt)
    const lacking = { messages: [{ role: 'user' }] }
    const refused = await jobs.wait(await jobs.submit({ ...target, chat: lacking }), { pollMs: 20 })
    expect(refused).toMatchObject({ answer: { error: { code: 'invalid_request' } } })
  })
})

describe('§5: content must be there wherever nothing is called', () => {
  const others: readonly (readonly [string, object])[] = [
    ['of a user', { role: 'user' }],
    ['of a system', { role: 'system' }],
    ['of a developer', { role: 'developer' }],
    ['of a tool', { role: 'tool', tool_call_id: 'call_1' }],
    ['of a user who calls', { role: 'user', tool_calls: [call] }],
    ['of an assistant without calls', { role: 'assistant' }],
    ['of an assistant with no call in its list', { role: 'assistant', tool_calls: [] }],
    ['of an assistant whose calls are null', { role: 'assistant', tool_calls: null }],
    ['of an assistant whose calls are no list', { role: 'assistant', tool_calls: { 0: call } }],
  ]

  test.each(others)('%s', async (_, message) => {
    const messages = [{ role: 'user', content: 'hi' }, message]
    const response = await postJson(`${gateway.url}/v1/chat/completions`, customer.key, { model: 'm', messages })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', param: 'messages[1].content' } })
    expect(sent).toEqual([])
  })

  test('on Ollama’s listener as well', async () => {
    const chat = (messages: readonly object[]) =>
      postJson(`${gateway.ollamaUrl}/api/chat`, customer.key, { model: 'm', messages, stream: false })
    for (const role of ['user', 'system', 'assistant', 'tool']) {
      const refused = await chat([{ role: 'user', content: 'hi' }, { role }])
      expect([role, refused.status, await refused.json()]).toMatchObject([
        role,
        400,
        { svc: { code: 'invalid_request', param: 'messages[1].content' } },
      ])
    }
    const called = { role: 'assistant', tool_calls: [{ function: { name: 'look', arguments: {} } }] }
    const answered = await chat([{ role: 'user', content: 'hi' }, called, { role: 'tool', content: 'blue' }])
    expect(answered.status).toBe(200)
    expect(sentMessages()[1]).toMatchObject({ role: 'assistant', content: null })
  })

  test('a bad role is still none', async () => {
    const messages = [{ role: 'function', content: 'x' }]
    const response = await postJson(`${gateway.url}/v1/chat/completions`, customer.key, { model: 'm', messages })
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', param: 'messages[0].role' } })
  })
})
