import { describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { answeredUsage, answerStream, answerWhole } from '../../support/nodes/scripted-answers.ts'
import { nodeChunk, type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

type Events = readonly OpenAI.Responses.ResponseStreamEvent[]
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: customer.key, maxRetries: 0 })

const model = 'm'
const weather: OpenAI.Responses.FunctionTool = {
  type: 'function',
  name: 'weather',
  description: 'Of a town',
  parameters: { type: 'object', properties: { town: { type: 'string' } } },
  strict: true,
}

const whole = (message: object, finish?: string) => answerWhole(node, message, finish)
const streaming = (deltas: readonly object[], finish: string | null, end?: (call: ScriptedCall) => void) =>
  answerStream(node, deltas, finish, end)
async function eventsOf(params: object = {}): Promise<Events> {
  const events: OpenAI.Responses.ResponseStreamEvent[] = []
  for await (const event of await client.responses.create({ model, input: 'hi', ...params, stream: true })) {
    events.push(event)
  }
  return events
}

describe('§28: a response becomes a chat', () => {
  test('instructions, items, images, functions and their outputs', async () => {
    const sent = whole({ role: 'assistant', content: 'fine' })
    await client.responses.create({
      model,
      instructions: 'Be brief.',
      max_output_tokens: 50,
      temperature: 0.5,
      parallel_tool_calls: false,
      reasoning: { effort: 'low', summary: 'auto' },
      text: { format: { type: 'json_schema', name: 'town', schema: { type: 'object' }, strict: true } },
      tools: [weather],
      tool_choice: { type: 'function', name: 'weather' },
      store: true,
      metadata: { a: 'b' },
      include: ['reasoning.encrypted_content'],
      input: [
        { role: 'developer', content: 'In German.' },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Where is this?' },
            { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'low' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'a secret thought' }] },
        {
          type: 'message',
          id: 'msg_1',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
        },
        { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"town":"Bern"}' },
        { type: 'function_call', call_id: 'c2', name: 'weather', arguments: '{"town":"Rom"}' },
        { type: 'function_call_output', call_id: 'c1', output: 'rain' },
        { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'sun' }] },
      ],
    })
    const { type: _, ...declared } = weather
    const called = (id: string, town: string) => ({
      id,
      type: 'function',
      function: { name: 'weather', arguments: JSON.stringify({ town }) },
    })
    expect(await sent).toEqual({
      model,
      max_tokens: 50,
      temperature: 0.5,
      parallel_tool_calls: false,
      reasoning_effort: 'low',
      response_format: { type: 'json_schema', json_schema: { name: 'town', schema: { type: 'object' }, strict: true } },
      tools: [{ type: 'function', function: declared }],
      tool_choice: { type: 'function', function: { name: 'weather' } },
      messages: [
        { role: 'system', content: 'Be brief.\n\nIn German.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Where is this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=', detail: 'low' } },
          ],
        },
        { role: 'assistant', content: 'I look.', tool_calls: [called('c1', 'Bern'), called('c2', 'Rom')] },
        { role: 'tool', tool_call_id: 'c1', content: 'rain' },
        { role: 'tool', tool_call_id: 'c2', content: 'sun' },
      ],
    } as Record<string, unknown>)
  })

  test.each([
    ['an earlier response', { previous_response_id: 'resp_1' }, 'responses_not_stored', 'previous_response_id'],
    ['a conversation', { conversation: 'conv_1' }, 'responses_not_stored', 'conversation'],
    ['work in the background', { background: true }, 'responses_not_stored', 'background'],
    ['a stored prompt', { prompt: { id: 'p' } }, 'responses_not_stored', 'prompt'],
    [
      'an item that is stored elsewhere',
      { input: [{ type: 'item_reference', id: 'msg_1' }] },
      'responses_not_stored',
      'input[0]',
    ],
    ['a hosted tool', { tools: [{ type: 'web_search' }] }, 'tool_not_supported', 'tools[0].type'],
    [
      'an item of a hosted tool',
      { input: [{ type: 'computer_call', id: 'c' }] },
      'tool_not_supported',
      'input[0].type',
    ],
    [
      'a file',
      { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] },
      'unsupported_input',
      'input[0].content[0]',
    ],
    ['cutting the input', { truncation: 'auto' }, 'invalid_request', 'truncation'],
    ['what there is not', { include: ['file_search_call.results'] }, 'invalid_request', 'include'],
    ['another role', { input: [{ role: 'critic', content: 'x' }] }, 'invalid_request', 'input[0].role'],
  ])('what no chat can carry is refused by name: %s', async (_, more, code, param) => {
    const before = node.calls
    const failure = await client.responses
      .create({ model, input: 'hi', ...more } as never)
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(OpenAI.BadRequestError)
    expect(failure).toMatchObject({ code, param })
    expect(node.calls).toBe(before)
  })
})

describe('§28: an answer becomes a response', () => {
  test('whole: thoughts, text, calls, the end and the usage', async () => {
    void whole(
      {
        role: 'assistant',
        content: 'I look.',
        reasoning_content: 'hm',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"town":"Bern"}' } }],
      },
      'tool_calls',
    )
    const response = await client.responses.create({ model, input: 'hi', instructions: 'Be brief.', tools: [weather] })
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      model,
      output_text: 'I look.',
      instructions: 'Be brief.',
      tools: [weather],
      store: false,
      usage: { input_tokens: 11, output_tokens: 5, total_tokens: 16 },
      svc: { receipt_hash: expect.stringMatching(/^0x/) },
      output: [
        { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'hm' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
        { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"town":"Bern"}' },
      ],
    } as object)
  })

  test('an answer that was cut is incomplete', async () => {
    void whole({ role: 'assistant', content: 'x' }, 'length')
    const response = await client.responses.create({ model, input: 'hi' })
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
    streaming([{ content: 'x' }], 'length')
    expect((await eventsOf()).at(-1)).toMatchObject({ type: 'response.incomplete', response: { status: 'incomplete' } })
  })

  test('a stream, event by event, numbered without a gap', async () => {
    streaming(
      [
        { role: 'assistant', content: '' },
        { reasoning_content: 'hm' },
        { content: 'I ' },
        { content: 'look.' },
        { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'weather', arguments: '{' } }] },
        { tool_calls: [{ index: 1, id: 'c2', type: 'function', function: { name: 'weather', arguments: '{}' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '}' } }] },
      ],
      'tool_calls',
    )
    const events = await eventsOf({ tools: [weather] })
    const shown = events.map((event) => {
      const { type, output_index: index, delta } = event as { type: string; output_index?: number; delta?: string }
      return [
        type.replace('response.', ''),
        ...(index === undefined ? [] : [index]),
        ...(delta === undefined ? [] : [delta]),
      ]
    })
    expect(shown).toEqual([
      ['created'],
      ['in_progress'],
      ['output_item.added', 0],
      ['content_part.added', 0],
      ['reasoning_text.delta', 0, 'hm'],
      ['reasoning_text.done', 0],
      ['content_part.done', 0],
      ['output_item.done', 0],
      ['output_item.added', 1],
      ['content_part.added', 1],
      ['output_text.delta', 1, 'I '],
      ['output_text.delta', 1, 'look.'],
      ['output_text.done', 1],
      ['content_part.done', 1],
      ['output_item.done', 1],
      ['output_item.added', 2],
      ['function_call_arguments.delta', 2, '{'],
      ['output_item.added', 3],
      ['function_call_arguments.delta', 3, '{}'],
      ['function_call_arguments.delta', 2, '}'],
      ['function_call_arguments.done', 2],
      ['output_item.done', 2],
      ['function_call_arguments.done', 3],
      ['output_item.done', 3],
      ['completed'],
    ])
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, at) => at))
    expect(events.at(-1)).toMatchObject({
      response: {
        status: 'completed',
        usage: { total_tokens: 16 },
        output: [{ type: 'reasoning' }, { type: 'message' }, { arguments: '{}' }, { arguments: '{}' }],
      },
    } as object)
  })

  test('the SDK’s own accumulator ends with the same response', async () => {
    streaming([{ content: 'a' }, { content: 'b' }], 'stop')
    const response = await client.responses.stream({ model, input: 'hi' }).finalResponse()
    expect(response).toMatchObject({ status: 'completed', output_text: 'ab', usage: { total_tokens: 16 } })
  })

  test('last words in the chunk that ends are not lost', async () => {
    node.answer(async (call) => {
      call.open()
      await call.event(nodeChunk({ content: 'a' }))
      await call.event(nodeChunk({ content: 'z' }, 'stop', { usage: answeredUsage }))
      call.end()
    })
    expect((await client.responses.stream({ model, input: 'hi' }).finalResponse()).output_text).toBe('az')
  })

  test('a node that stops in the middle: the response has failed, and is not completed', async () => {
    streaming([{ content: 'a' }], null, (call) => call.cut('reset'))
    const last = (await eventsOf()).at(-1)
    expect(last).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error', message: 'The node stopped responding.' } },
    } as object)
  })

  test('a mixture answers whole and streamed, with its trace', async () => {
    node.answer((call) =>
      call.respond(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: 'Answer: 4' }, finish_reason: 'stop' }],
        usage: answeredUsage,
      }),
    )
    const svc = { mixture: { strategy: 'vote', experts: [{ model }, { model }] } }
    const asked = { model, input: '2+2', svc }
    expect(await client.responses.create(asked)).toMatchObject({
      output_text: 'Answer: 4',
      usage: { input_tokens: 22, output_tokens: 10 },
      svc: { mixture: { strategy: 'vote' } },
    } as object)
    expect((await client.responses.stream(asked).finalResponse()).output_text).toBe('Answer: 4')
  })
})

describe('§28: the AI SDK as it comes', () => {
  const provider = () => createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: customer.key })(model)

  test('whole', async () => {
    void whole({ role: 'assistant', content: 'fine' })
    const { text, usage: used, finishReason } = await generateText({ model: provider(), prompt: 'hi', maxRetries: 0 })
    expect([text, used.inputTokens, used.outputTokens, finishReason]).toEqual(['fine', 11, 5, 'stop'])
  })

  test('streamed', async () => {
    streaming([{ content: 'a' }, { content: 'b' }], 'stop')
    const result = streamText({ model: provider(), prompt: 'hi', maxRetries: 0 })
    expect([await result.text, await result.finishReason]).toEqual(['ab', 'stop'])
  })

  test('a failure in the middle is no good end', async () => {
    streaming([{ content: 'a' }], null, (call) => call.cut('reset'))
    const result = streamText({ model: provider(), prompt: 'hi', maxRetries: 0, onError: () => {} })
    const parts: string[] = []
    for await (const { type } of result.fullStream) parts.push(type)
    expect(parts.includes('error') || (await result.finishReason) === 'error').toBe(true)
  })
})
