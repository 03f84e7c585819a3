import { describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { answeredUsage, answerStream, answerWhole } from '../../support/nodes/scripted-answers.ts'
import { nodeChunk, type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

type Events = readonly Anthropic.RawMessageStreamEvent[]
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })
const client = new Anthropic({ baseURL: gateway.url, apiKey: customer.key, maxRetries: 0 })

const model = 'm'
const user = (content: Anthropic.MessageParam['content']): Anthropic.MessageParam => ({ role: 'user', content })
const weather: Anthropic.Tool = {
  name: 'weather',
  description: 'Of a town',
  input_schema: { type: 'object', properties: { town: { type: 'string' } } },
}

const whole = (message: object, finish?: string) => answerWhole(node, message, finish)
const streaming = (deltas: readonly object[], finish: string | null, end?: (call: ScriptedCall) => void) =>
  answerStream(node, deltas, finish, end)
async function eventsOf(params: Partial<Anthropic.MessageCreateParamsStreaming> = {}): Promise<Events> {
  const events: Anthropic.RawMessageStreamEvent[] = []
  const stream = await client.messages.create({
    model,
    max_tokens: 100,
    messages: [user('hi')],
    ...params,
    stream: true,
  })
  for await (const event of stream) events.push(event)
  return events
}

describe('§28: messages become a chat', () => {
  test('system, text, images, tools, results and thoughts', async () => {
    const sent = whole({ role: 'assistant', content: 'fine' })
    await client.messages.create({
      model,
      max_tokens: 50,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      // The SDK's types no longer know them; older clients send them.
      ...({ temperature: 0.5, top_k: 40 } as object),
      stop_sequences: ['END'],
      metadata: { user_id: 'somebody' },
      thinking: { type: 'enabled', budget_tokens: 1_024 },
      tools: [weather],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      messages: [
        user([
          { type: 'text', text: 'Where is this?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } },
        ]),
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'a secret thought', signature: 's' },
            { type: 'text', text: 'I look.' },
            { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { town: 'Bern' } },
          ],
        },
        user([
          { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'rain' }], is_error: true },
          { type: 'text', text: 'And now?' },
        ]),
      ],
    })
    expect(await sent).toEqual({
      chat_template_kwargs: { enable_thinking: true, thinking: true },
      model,
      max_tokens: 50,
      // The SDK's types no longer know them; older clients send them.
      ...({ temperature: 0.5, top_k: 40 } as object),
      stop: ['END'],
      tool_choice: 'required',
      parallel_tool_calls: false,
      tools: [
        {
          type: 'function',
          function: { name: 'weather', description: 'Of a town', parameters: weather.input_schema as object },
        },
      ],
      messages: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Where is this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } },
          ],
        },
        {
          role: 'assistant',
          content: 'I look.',
          tool_calls: [
            { id: 'toolu_1', type: 'function', function: { name: 'weather', arguments: '{"town":"Bern"}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'toolu_1', content: 'Error: rain' },
        { role: 'user', content: 'And now?' },
      ],
    })
  })

  test('what stands as a system message between the turns goes to the head, where every template takes it', async () => {
    const sent = whole({ role: 'assistant', content: 'fine' })
    const between = { role: 'system', content: 'Agents: none.' } as const
    await client.messages.create({
      model,
      max_tokens: 5,
      system: 'Be brief.',
      messages: [user('hi'), between, { role: 'assistant', content: 'ho' }, user('and?')],
    })
    expect((await sent).messages).toEqual([
      { role: 'system', content: 'Be brief.\n\nAgents: none.' },
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'ho' },
      { role: 'user', content: 'and?' },
    ])
  })

  test('structured output and effort', async () => {
    const sent = whole({ role: 'assistant', content: '{"a":1}' })
    const schema = { type: 'object', properties: { a: { type: 'integer' } } }
    const body = { model, max_tokens: 5, messages: [user('hi')] }
    await client.messages.create({ ...body, output_config: { effort: 'max', format: { type: 'json_schema', schema } } })
    expect(await sent).toMatchObject({
      reasoning_effort: 'high',
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    })
  })

  test.each([
    [
      'a tool of theirs',
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      'tool_not_supported',
      'tools[0].type',
    ],
    ['a conversation that is kept', { thread: { type: 'create' } }, 'responses_not_stored', 'thread'],
    ['a container', { container: 'c' }, 'invalid_request', 'container'],
    [
      'their servers',
      { mcp_servers: [{ type: 'url', url: 'https://x', name: 'x' }] },
      'invalid_request',
      'mcp_servers',
    ],
    [
      'edits of a context',
      { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } },
      'invalid_request',
      'context_management',
    ],
    [
      'a document',
      { messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'url', url: 'u' } }] }] },
      'unsupported_input',
      'messages[0].content[0].type',
    ],
    ['no max_tokens', { max_tokens: undefined }, 'invalid_request', 'max_tokens'],
    ['a tool without a schema', { tools: [{ name: 't' }] }, 'invalid_request', 'tools[0].input_schema'],
  ])('what no chat can carry is refused by name: %s', async (_, more, code, param) => {
    const before = node.calls
    const asked = { model, max_tokens: 5, messages: [user('hi')], ...more }
    const failure = await client.messages.create(asked as never).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.BadRequestError)
    expect(failure).toMatchObject({ error: { type: 'error', error: { svc: { code, param } } } })
    expect(node.calls).toBe(before)
  })
})

describe('§28: answers become messages', () => {
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
    const { data, request_id } = await client.messages
      .create({ model, max_tokens: 5, messages: [user('hi')], tools: [weather] })
      .withResponse()
    expect(data).toMatchObject({
      type: 'message',
      role: 'assistant',
      model,
      stop_reason: 'tool_use',
      usage: { input_tokens: 11, output_tokens: 5 },
      svc: { request_id: request_id ?? '' },
    } as object)
    expect(data.id).toStartWith('msg_')
    expect(data.content).toMatchObject([
      { type: 'thinking', thinking: 'hm' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 'c1', name: 'weather', input: { town: 'Bern' } },
    ])
  })

  test.each([
    ['stop', 'end_turn'],
    ['length', 'max_tokens'],
    ['content_filter', 'refusal'],
  ] as const)('%s is %s', async (finish, reason) => {
    void whole({ role: 'assistant', content: 'x' }, finish)
    const message = await client.messages.create({ model, max_tokens: 5, messages: [user('hi')] })
    expect(message.stop_reason).toBe(reason)
  })

  test('a stream, event by event', async () => {
    streaming(
      [
        { role: 'assistant', content: '' },
        { reasoning_content: 'h' },
        { reasoning_content: 'm' },
        { content: 'I ' },
        { content: 'look.' },
        { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'weather', arguments: '' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '{"town":' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '"Bern"}' } }] },
        { tool_calls: [{ index: 1, id: 'c2', type: 'function', function: { name: 'weather', arguments: '{}' } }] },
      ],
      'tool_calls',
    )
    const events = await eventsOf({ tools: [weather] })
    const shown = events.map((event) => {
      if (event.type === 'content_block_start') return [event.type, event.index, event.content_block.type]
      if (event.type === 'content_block_delta') return [event.type, event.index, Object.values(event.delta).join(':')]
      if (event.type === 'content_block_stop') return [event.type, event.index]
      return [event.type]
    })
    expect(shown).toEqual([
      ['message_start'],
      ['content_block_start', 0, 'thinking'],
      ['content_block_delta', 0, 'thinking_delta:h'],
      ['content_block_delta', 0, 'thinking_delta:m'],
      ['content_block_stop', 0],
      ['content_block_start', 1, 'text'],
      ['content_block_delta', 1, 'text_delta:I '],
      ['content_block_delta', 1, 'text_delta:look.'],
      ['content_block_stop', 1],
      ['content_block_start', 2, 'tool_use'],
      ['content_block_delta', 2, 'input_json_delta:{"town":'],
      ['content_block_delta', 2, 'input_json_delta:"Bern"}'],
      ['content_block_stop', 2],
      ['content_block_start', 3, 'tool_use'],
      ['content_block_delta', 3, 'input_json_delta:{}'],
      ['content_block_stop', 3],
      ['message_delta'],
      ['message_stop'],
    ])
    expect(events.at(-2)).toMatchObject({
      delta: { stop_reason: 'tool_use', stop_sequence: null },
      usage: { input_tokens: 11, output_tokens: 5 },
      svc: { receipt_hash: expect.stringMatching(/^0x/) },
    } as object)
  })

  test('the SDK’s own accumulator ends with the same message', async () => {
    streaming([{ reasoning: 'hm' }, { content: 'a' }, { content: 'b' }], 'stop')
    const message = await client.messages.stream({ model, max_tokens: 5, messages: [user('hi')] }).finalMessage()
    expect(message.content).toMatchObject([
      { type: 'thinking', thinking: 'hm' },
      { type: 'text', text: 'ab' },
    ])
    expect(message).toMatchObject({ stop_reason: 'end_turn', usage: { input_tokens: 11, output_tokens: 5 } })
  })

  test('last words in the chunk that ends are not lost', async () => {
    node.answer(async (call) => {
      call.open()
      await call.event(nodeChunk({ content: 'a' }))
      await call.event(nodeChunk({ content: 'z' }, 'stop', { usage: answeredUsage }))
      call.end()
    })
    const message = await client.messages.stream({ model, max_tokens: 5, messages: [user('hi')] }).finalMessage()
    expect(message.content).toMatchObject([{ type: 'text', text: 'az' }])
  })

  test('a node that stops in the middle: the SDK throws its own error', async () => {
    streaming([{ content: 'a' }], null, (call) => call.cut('reset'))
    const failure = await eventsOf().catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.APIError)
    expect((failure as Error).message).toContain('The node stopped responding.')
  })

  test('calls that a node interleaves cannot be told in blocks, and fail instead of losing a part', async () => {
    const call = (index: number, more: object) => ({ tool_calls: [{ index, ...more }] })
    const begin = (index: number) => call(index, { id: `c${index}`, function: { name: 'weather', arguments: '{' } })
    streaming([begin(0), begin(1), call(0, { function: { arguments: '}' } })], null)
    expect(await eventsOf().catch((error: unknown) => error)).toBeInstanceOf(Anthropic.APIError)
  })
})

describe('§28: the rest of Anthropic’s interface', () => {
  test('errors are of the SDK’s own classes', async () => {
    const ask = (key: string, name: string) =>
      new Anthropic({ baseURL: gateway.url, apiKey: key, maxRetries: 0 }).messages
        .create({ model: name, max_tokens: 5, messages: [user('hi')] })
        .catch((error: unknown) => error)
    expect(await ask('nonsense', model)).toBeInstanceOf(Anthropic.AuthenticationError)
    expect(await ask(customer.key, 'nothing')).toBeInstanceOf(Anthropic.NotFoundError)
    node.answer((call) => call.respond(500, {}))
    expect(await ask(customer.key, model)).toBeInstanceOf(Anthropic.InternalServerError)
  })

  test('tokens are counted where no node has a tokenizer, by the estimate', async () => {
    const before = node.calls
    const counted = await client.messages.countTokens({ model, messages: [user('x'.repeat(100))], tools: [weather] })
    expect(counted.input_tokens).toBeGreaterThan(30)
    expect(node.calls).toBe(before)
    const wrong = new Anthropic({ baseURL: gateway.url, apiKey: 'nonsense', maxRetries: 0 })
    const failure = await wrong.messages.countTokens({ model, messages: [user('x')] }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.AuthenticationError)
  })

  test('the list of models pages as the SDK does', async () => {
    const ids: string[] = []
    for await (const { id } of client.models.list()) ids.push(id)
    expect(ids).toEqual([model])
    expect((await client.models.retrieve(model)).display_name).toBe(model)
  })

  test('a mixture answers whole and streamed, with its trace', async () => {
    node.answer((call) =>
      call.respond(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: 'Answer: 4' }, finish_reason: 'stop' }],
        usage: answeredUsage,
      }),
    )
    const svc = { mixture: { strategy: 'vote', experts: [{ model }, { model }] } }
    const asked = { model, max_tokens: 5, messages: [user('2+2')], svc }
    const message = await client.messages.create(asked)
    expect(message).toMatchObject({
      content: [{ type: 'text', text: 'Answer: 4' }],
      usage: { input_tokens: 22, output_tokens: 10 },
      svc: { mixture: { strategy: 'vote' } },
    } as object)
    const streamed = await client.messages.stream(asked).finalMessage()
    expect(streamed.content).toMatchObject([{ type: 'text', text: 'Answer: 4' }])
    expect(streamed.usage).toMatchObject({ input_tokens: 22, output_tokens: 10 })
  })
})
