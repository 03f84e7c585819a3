import { type Answer, type Answered, type Body, type Outcome, refusal, type SuiteCase, single } from './suite-case.ts'

const path = '/v1/chat/completions'
const book = [
  { role: 'system', content: 'Book' },
  { role: 'user', content: 'What is the best book' },
]
const few = { messages: book, max_tokens: 8, temperature: 0 }
const chat = (name: string, body: Body, look: (answered: Answered) => unknown, rest: Outcome) =>
  single('chat', name, [path, body], look, rest)

const contentOf = ({ body }: Answered): string => body.choices[0].message.content
const wholeFacts = ({ status, body }: Answered) => {
  const [{ message, finish_reason: finish }] = body.choices
  return [
    status,
    body.id.includes('cmpl'),
    message.role,
    finish,
    body.usage.completion_tokens,
    body.usage.prompt_tokens > 8,
  ]
}
const whole = [200, true, 'assistant', 'length', 8, true]

function streamFacts({ events }: Answered) {
  const chosen = events.filter(({ choices }) => choices.length > 0)
  const [first, ...rest] = chosen.map(({ choices: [choice] }) => choice)
  const last = rest.at(-1)
  return {
    role: first.delta.role,
    // Null, or no text: both say that there is none yet.
    begins: first.delta.content ?? '',
    laterRoles: rest.some(({ delta }) => 'role' in delta),
    ids: new Set(events.map(({ id }) => id)).size,
    end: [last.finish_reason, last.delta.content ?? ''],
  }
}

function probabilities(tokens: readonly Answer[]): boolean {
  return (
    tokens.length > 0 &&
    tokens.every(({ logprob, bytes, top_logprobs: top }) => logprob <= 0 && Array.isArray(bytes) && top.length > 0)
  )
}
const textOf = (tokens: readonly Answer[]) => tokens.map(({ token }) => token).join('')

const formats: readonly (readonly [string, Body, string])[] = [
  ['a constant', { type: 'json_object', schema: { const: '42' } }, '"42"'],
  ['a constant of json_schema', { type: 'json_schema', json_schema: { schema: { const: 'foooooo' } } }, '"foooooo"'],
]
const wrongFormats: readonly (readonly [string, Body])[] = [
  ['an unknown kind', { type: 'sound' }],
  ['a type that is a number', { type: 'json_object', schema: { type: 123 } }],
  ['an unknown type', { type: 'json_object', schema: { type: 'hiccup' } }],
]
const twice = { role: 'assistant', content: 'test' }
const wrongMessages: readonly (readonly [string, unknown])[] = [
  ['null', null],
  ['a text', 'string'],
  ['a number', [123]],
  ['an empty object', [{}]],
  ['a role that is a number', [{ role: 123 }]],
  ['content that is a number', [{ role: 'system', content: 123 }]],
  ['one of them empty', [{ role: 'system', content: 'test' }, {}]],
  ['two of the assistant at the end', [{ role: 'user', content: 'test' }, twice, twice]],
]
/** Some are 500 by the server itself; the suite takes both. */
const isRefused = ({ status, body }: Answered) => [status === 400 || status === 500, body.error !== undefined]

const long = Array.from({ length: 100 }, () => book).flat()
const tooLong = ({ status, body: { error } }: Answered) => [
  status,
  error.type,
  (error.n_prompt_tokens ?? error.svc?.prompt_tokens) > 0,
  error.n_ctx ?? error.svc?.context_length,
]
const tooLongHere = { facts: [400, 'invalid_request_error', true, 1_024], row: 'Errors' }

export const llamaChat: readonly SuiteCase[] = [
  chat('a whole answer', few, wholeFacts, { expected: whole }),
  chat(
    'content in two parts',
    {
      ...few,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is' },
            { type: 'text', text: 'best' },
          ],
        },
      ],
    },
    wholeFacts,
    { expected: whole },
  ),
  chat('a model of another name', { ...few, model: 'gpt-3.5-turbo-instruct' }, ({ status }) => status, {
    expected: 200,
    through: { facts: 404, row: 'A model of another name, or none' },
  }),
  chat('no model', { ...few, model: undefined }, ({ status }) => status, {
    expected: 200,
    through: { facts: 400, row: 'A model of another name, or none' },
  }),
  chat('the fingerprint', few, ({ body }) => body.system_fingerprint?.startsWith('b') === true, {
    expected: true,
    through: { facts: false, row: '`system_fingerprint`' },
  }),
  chat('a stream', { ...few, stream: true }, streamFacts, {
    expected: { role: 'assistant', begins: '', laterRoles: false, ids: 1, end: ['length', ''] },
  }),
  chat(
    'the usage of a stream',
    { ...few, stream: true, stream_options: { include_usage: true } },
    ({ events }) => [events.at(-1).choices, events.at(-1).usage.completion_tokens],
    { expected: [[], 8] },
  ),
  ...formats.map(([name, format, text]) =>
    chat(`JSON by ${name}`, { ...few, max_tokens: 20, response_format: format }, contentOf, { expected: text }),
  ),
  ...wrongFormats.map(([name, format]) =>
    chat(`JSON by ${name}`, { ...few, response_format: format }, refusal, { expected: [400, true] }),
  ),
  chat('a schema at the top', { ...few, json_schema: { const: '42' } }, contentOf, { expected: '"42"' }),
  chat('a grammar', { ...few, grammar: 'root ::= "a"{5,5}' }, contentOf, { expected: 'aaaaa' }),
  ...wrongMessages.map(([name, messages]) =>
    chat(`messages: ${name}`, { ...few, messages }, isRefused, { expected: [true, true] }),
  ),
  chat(
    'times of each token',
    { ...few, stream: true, stream_options: { include_usage: true }, timings_per_token: true },
    ({ events }) => [
      events[0].timings === undefined,
      events.at(-1).timings.predicted_n,
      'prompt_per_second' in events.at(-1).timings,
    ],
    { expected: [true, 8, true] },
  ),
  chat(
    'probabilities',
    { ...few, max_tokens: 5, logprobs: true, top_logprobs: 10 },
    ({ body }) => {
      const [{ logprobs, message }] = body.choices
      return [textOf(logprobs.content) === message.content, probabilities(logprobs.content)]
    },
    { expected: [true, true] },
  ),
  chat(
    'probabilities of a stream',
    { ...few, max_tokens: 5, logprobs: true, top_logprobs: 10, stream: true },
    ({ events }) => {
      const choices = events.flatMap(({ choices: [choice] }) => choice ?? [])
      const tokens = choices.flatMap(({ logprobs }) => logprobs?.content ?? [])
      return [textOf(tokens) === choices.map(({ delta }) => delta.content ?? '').join(''), probabilities(tokens)]
    },
    { expected: [true, true] },
  ),
  chat('a prompt beyond the context', { ...few, messages: long }, tooLong, {
    expected: [400, 'exceed_context_size_error', true, 1_024],
    through: tooLongHere,
  }),
  chat('a prompt beyond the context, streamed', { ...few, messages: long, stream: true }, tooLong, {
    expected: [400, 'exceed_context_size_error', true, 1_024],
    through: tooLongHere,
  }),
  chat(
    'progress of the prompt',
    { ...few, messages: [{ role: 'user', content: 'This is a test'.repeat(10) }], stream: true, return_progress: true },
    ({ events }) => {
      const told = events.flatMap(({ prompt_progress: progress }) => progress ?? [])
      return [told.length > 0, told.at(-1)?.processed === told.at(-1)?.total, told.at(-1)?.total > 0]
    },
    { expected: [true, true, true] },
  ),
  chat('two answers', { ...few, n: 2 }, ({ status, body }) => [status, body.choices?.length], {
    expected: [200, 2],
    through: { facts: [400, undefined], row: '`n` of a chat' },
  }),
]
