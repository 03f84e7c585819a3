import { expect } from 'bun:test'
import { type Answer, type Answered, type Body, type Outcome, refusal, type SuiteCase, single } from './suite-case.ts'

const hello = [{ role: 'user', content: 'Say hello' }]
const messages = { max_tokens: 20, temperature: 0, messages: hello }
const message = (name: string, body: Body, look: (answered: Answered) => unknown, rest: Outcome) =>
  single('chat', name, ['/v1/messages', { ...messages, ...body }], look, rest)

const isCount = (value: unknown) => typeof value === 'number' && Number.isSafeInteger(value)
function answerFacts({ status, body }: Answered) {
  const [block] = body.content ?? []
  return [
    status,
    body.type,
    body.role,
    block?.type,
    ['end_turn', 'max_tokens', 'stop_sequence'].includes(body.stop_reason),
  ]
}
const answer = [200, 'message', 'assistant', 'text', true]
const kinds = ({ status, body }: Answered) => [status, body.type]
const aMessage = [200, 'message']

const weather = {
  name: 'get_weather',
  description: 'Get the current weather in a location',
  input_schema: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
}
const used = {
  role: 'assistant',
  content: [{ type: 'tool_use', id: 'tool_1', name: 'get_weather', input: { location: 'Paris' } }],
}
const result = { type: 'tool_result', tool_use_id: 'tool_1', content: 'Sunny, 25°C' }
const after = (...content: readonly Body[]) => ({ messages: [...hello, used, { role: 'user', content }] })

function streamFacts({ events }: Answered) {
  const of = (type: string): readonly Answer[] => events.filter((event) => event.type === type)
  const [[start], [block], [delta]] = [of('message_start'), of('content_block_start'), of('message_delta')]
  return {
    kinds: [...new Set(events.map(({ type }) => type))].filter((type) => type !== 'ping'),
    start: [start.message.type, start.message.role, start.message.content],
    block: [block.index, block.content_block.type],
    deltas: of('content_block_delta').every((event) => event.index === 0 && typeof event.delta.text === 'string'),
    end: [delta.delta.stop_reason, delta.usage.output_tokens > 0, of('content_block_stop')[0].index],
  }
}
const streamed = {
  kinds: [
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
  ],
  start: ['message', 'assistant', []],
  block: [0, 'text'],
  deltas: true,
  end: ['max_tokens', true, 0],
}
const counted = ({ status, body }: Answered) => [status, body.input_tokens > 0, 'output_tokens' in body]
const count = (name: string, body: Body) =>
  single('chat', name, ['/v1/messages/count_tokens', { messages: hello, ...body }], counted, {
    expected: [200, true, false],
  })
const indices = ({ events }: Answered) => {
  const of = (type: string) => events.filter((event) => event.type === type).map(({ index }) => index)
  const starts = of('content_block_start')
  return [starts.every((index, at) => index === at), starts.length === of('content_block_stop').length]
}
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } }

export const llamaMessages: readonly SuiteCase[] = [
  message('a message', {}, answerFacts, { expected: answer }),
  message(
    'its usage',
    {},
    ({ body: { usage, timings } }) => [
      isCount(usage.input_tokens),
      isCount(usage.output_tokens) && usage.output_tokens > 0,
      isCount(usage.cache_read_input_tokens),
      timings === undefined,
    ],
    { expected: [true, true, true, true] },
  ),
  message('a system prompt', { system: 'You are a helpful assistant.' }, answerFacts, { expected: answer }),
  message(
    'content in blocks',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What' },
            { type: 'text', text: ' is' },
          ],
        },
      ],
    },
    kinds,
    {
      expected: aMessage,
    },
  ),
  message(
    'turns',
    { messages: [...hello, { role: 'assistant', content: 'Hi' }, { role: 'user', content: 'How?' }] },
    kinds,
    { expected: aMessage },
  ),
  message('a message as a stream', { stream: true, ignore_eos: true }, streamFacts, { expected: streamed }),
  message(
    'the prompt’s count in the first event',
    { stream: true },
    ({ events }) => events[0].message.usage.input_tokens > 0,
    {
      expected: true,
      through: { facts: false, row: 'The beginning of a stream of Messages' },
    },
  ),
  count('a count of tokens', {}),
  count('a count with a system prompt', { system: 'You are a helpful assistant.' }),
  message('a tool', { tools: [weather] }, kinds, { expected: aMessage }),
  message('a result of a tool', after(result), kinds, { expected: aMessage }),
  message('a result after a text', after({ type: 'text', text: 'Here:' }, result), kinds, { expected: aMessage }),
  message('a result that is an error', after({ ...result, is_error: true }), kinds, { expected: aMessage }),
  message('a stream with a tool', { tools: [weather], stream: true, max_tokens: 60 }, indices, {
    expected: [true, true],
  }),
  message(
    'a picture for a model of texts',
    { messages: [{ role: 'user', content: [picture, { type: 'text', text: 'What?' }] }] },
    refusal,
    {
      expected: [500, true],
      through: { facts: [400, true], row: 'Errors' },
    },
  ),
  message('sequences that stop it', { stop_sequences: ['\n', 'END'] }, kinds, { expected: aMessage }),
  message('sampling', { temperature: 0.5, top_p: 0.9, top_k: 40 }, kinds, { expected: aMessage }),
  message('no messages', { messages: undefined }, ({ status }) => status >= 400, { expected: true }),
  message('an empty list of messages', { messages: [] }, ({ status }) => status, {
    expected: 200,
    through: { facts: 400, row: 'No messages, an unknown role' },
  }),
  message(
    'thinking',
    { thinking: { type: 'enabled', budget_tokens: 1_024 }, max_tokens: 1_500 },
    ({ status }) => status,
    { expected: 200 },
  ),
  message('who asks', { metadata: { user_id: 'test_user_123' } }, kinds, { expected: aMessage }),
]

const respond = (name: string, body: Body, look: (answered: Answered) => unknown, rest: Outcome) =>
  single(
    'chat',
    name,
    ['/v1/responses', { input: 'Write an example', max_output_tokens: 20, temperature: 0, ...body }],
    look,
    rest,
  )
const written = ({ body }: Answered) =>
  body.output.find(({ type }: { readonly type: string }) => type === 'message').content[0].text
const telemetry = {
  input: 'This is a test'.repeat(10),
  max_output_tokens: 8,
  stream: true,
  timings_per_token: true,
  return_progress: true,
}

function responseFacts({ events }: Answered) {
  const ids = (type: string, of: (event: Answer) => string) => events.filter((event) => event.type === type).map(of)
  const added = ids('response.output_item.added', ({ item }) => item.id)[0] ?? ''
  const text = ids('response.output_text.delta', ({ delta }) => delta).join('')
  const end = events.at(-1).response
  return [
    new Set(events.flatMap(({ response }) => response?.id ?? [])).size,
    end.id.startsWith('resp_') && added.startsWith('msg_'),
    events.flatMap(({ item_id: id }) => id ?? []).every((id) => id === added),
    text === written({ status: 200, body: end, events: [] }),
  ]
}

export const llamaResponses: readonly SuiteCase[] = [
  respond(
    'JSON of a schema',
    { text: { format: { type: 'json_schema', name: 'test', schema: { const: 'foooooo' } } } },
    written,
    {
      expected: '"foooooo"',
      // It passes over the format; the gateway tells it to the chat that it makes.
      server: expect.stringMatching(/^[^"]/),
    },
  ),
  respond('a text', { text: { format: { type: 'text' } } }, ({ status }) => status, { expected: 200 }),
  respond('a schema that is not there', { text: { format: { type: 'json_schema', name: 'test' } } }, refusal, {
    expected: [400, true],
    server: [200, false],
  }),
  respond('ids', {}, ({ body }) => [body.id.startsWith('resp_'), body.output[0].id.startsWith('msg_')], {
    expected: [true, true],
  }),
  respond('ids and texts of a stream', { stream: true }, responseFacts, { expected: [1, true, true, true] }),
  respond(
    'times and progress of a stream',
    telemetry,
    ({ events }) => [
      events.some((event) => event.prompt_progress !== undefined),
      events.some((event) => event.type === 'response.output_text.delta' && event.timings !== undefined),
      events.at(-1).timings !== undefined,
    ],
    { expected: [true, true, true] },
  ),
]
