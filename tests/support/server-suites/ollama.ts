import { type Answered, type Body, type Outcome, refusal, type SuiteCase, single } from './suite-case.ts'

/** Of Ollama's tests of its doors for OpenAI's clients: what those doors take and refuse. */
const chatPath = '/v1/chat/completions'
const hello = { role: 'user', content: 'Hello' }
const asked = { role: 'user', content: "What's the weather like in Paris Today?" }
const input = '{"location": "Paris, France", "format": "celsius"}'
const call = (id: string) => [{ id, type: 'function', function: { name: 'get_current_weather', arguments: input } }]
const used = (more: Body = {}) => [asked, { role: 'assistant', tool_calls: call('id_abc'), ...more }]
const told = 'The weather in Paris is 20 degrees Celsius'
const result = { role: 'tool', tool_call_id: 'id_abc', content: told }
const options = {
  max_tokens: 9,
  seed: 123,
  stop: ['\n', 'stop'],
  temperature: 1.5,
  frequency_penalty: 1,
  presence_penalty: 1,
  top_p: 0.6,
  response_format: { type: 'json_object' },
}
const properties = {
  location: { type: 'string', description: 'The city and state' },
  unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
}
const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Get the current weather',
      parameters: { type: 'object', required: ['location'], properties },
    },
  },
]
const picture = { type: 'image_url', image_url: { url: 'data:image/jpeg;base64,iVBORw0KGgo=' } }

const role = ({ status, body }: Answered) => [status, body.choices?.[0]?.message?.role]
const spoken = [200, 'assistant']
const chat = (name: string, body: Body, look: (answered: Answered) => unknown, rest: Outcome): SuiteCase =>
  single('chat', name, [chatPath, { max_tokens: 4, ...body }], look, rest)
const turns = (name: string, messages: readonly Body[]) => chat(name, { messages }, role, { expected: spoken })
const text = (name: string, body: Body, look: (answered: Answered) => unknown, rest: Outcome): SuiteCase =>
  single('chat', name, ['/v1/completions', { prompt: 'Hello', max_tokens: 4, ...body }], look, rest)
const sampled = { temperature: 0.8, stop: ['\n', 'stop'], suffix: 'suffix' }
const streamed = ({ status, events }: Answered) => [status, events.length > 1]
const lastUsage = ({ events }: Answered) => [events.at(-1)?.choices, events.at(-1)?.usage.completion_tokens > 0]

const chunksOf = ({ events }: Answered) => events.filter(({ choices }) => choices?.length > 0)
const stream = (name: string, look: (answered: Answered) => unknown, expected: unknown, more: Body = {}) =>
  chat(name, { messages: [hello], stream: true, ...more }, look, { expected })

export const ollamaSuite: readonly SuiteCase[] = [
  turns('a chat', [hello]),
  chat('options', { messages: [hello], stream: true, ...options }, streamed, { expected: [200, true] }),
  chat(
    'the usage of a stream',
    { messages: [hello], stream: true, stream_options: { include_usage: true } },
    lastUsage,
    {
      expected: [[], true],
    },
  ),
  chat('a picture', { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }, picture] }] }, refusal, {
    // The door takes it; the model behind it does not.
    expected: [400, true],
  }),
  // Ollama's end with the call; llama.cpp refuses to go on with one, so that its result follows here.
  turns('a call of a tool, and a result by its id', [...used(), result]),
  turns('a call with content', [...used({ content: "Let's see" }), result]),
  turns('a call with empty content', [...used({ content: '' }), result]),
  turns('a call with thoughts', [...used({ reasoning: "Let's see" }), result]),
  turns('a result by the name of its tool', [...used(), { role: 'tool', name: 'get_current_weather', content: told }]),
  chat('a stream with tools', { messages: [asked], tools, stream: true }, streamed, { expected: [200, true] }),
  stream(
    'a role on the first chunk of a stream alone',
    (answered) => chunksOf(answered).findLastIndex(({ choices: [{ delta }] }) => delta.role !== undefined),
    0,
    { temperature: 0 },
  ),
  {
    ...stream(
      'one time on all chunks of a stream',
      (answered) => new Set(chunksOf(answered).map(({ created }) => created)).size,
      1,
    ),
    // Version 0.12 reads its clock for each chunk, and a second may end between two of them.
    steadied: true,
  },
  stream(
    'the end of a stream at its limit: its reason once, and no content beside it',
    (answered) => [
      chunksOf(answered).flatMap(({ choices: [{ finish_reason: reason }] }) => reason ?? []),
      chunksOf(answered).at(-1).choices[0].delta.content ?? '',
    ],
    [['length'], ''],
    { ignore_eos: true, temperature: 0 },
  ),
  {
    purpose: 'chat',
    name: 'a request of Responses, plain and compressed',
    run: async (ask) => {
      const body = { input: 'Hello', max_output_tokens: 4 }
      const [plain, packed] = [await ask('/v1/responses', body), await ask('/v1/responses', body, 'zstd')]
      return [plain.status, packed.status]
    },
    expected: [200, 200],
    server: [404, 404],
    through: { facts: [200, 415], row: 'Compressed requests' },
  },
  chat('content that is a number', { messages: [{ role: 'user', content: 2 }] }, refusal, { expected: [400, true] }),
  text('a completion', sampled, ({ status, body }) => [status, typeof body.choices?.[0]?.text], {
    expected: [200, 'string'],
  }),
  text('a completion as a stream', { ...sampled, stream: true }, streamed, { expected: [200, true] }),
  text('its usage', { ...sampled, stop: null, stream: true, stream_options: { include_usage: true } }, lastUsage, {
    expected: [[], true],
  }),
  text('stops that are numbers', { ...sampled, temperature: null, stop: [1, 2] }, refusal, { expected: [400, true] }),
  single('embed', 'one input', ['/v1/embeddings', { input: 'the' }], ({ body }) => body.data?.length, { expected: 1 }),
  single('embed', 'two inputs', ['/v1/embeddings', { input: ['the', 'a'] }], ({ body }) => body.data?.length, {
    expected: 2,
  }),
  single('embed', 'no input', ['/v1/embeddings', {}], refusal, { expected: [400, true] }),
  {
    purpose: 'chat',
    name: 'the list of models, and each of them',
    run: async (ask) => {
      const { body: list } = await ask('/v1/models', null)
      const { body: one } = await ask(`/v1/models/${list.data[0].id}`, null)
      return [list.object, one.id === list.data[0].id, one.object, typeof one.created, typeof one.owned_by]
    },
    expected: ['list', true, 'model', 'number', 'string'],
  },
  {
    purpose: 'chat',
    name: 'a model that is not there',
    run: async (ask) => refusal(await ask('/v1/models/nowhere', null)),
    expected: [404, true],
  },
]
