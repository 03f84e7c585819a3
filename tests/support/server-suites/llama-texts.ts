import {
  type Answer,
  type Answered,
  type Ask,
  type Body,
  type Outcome,
  refusal,
  type SuiteCase,
  single,
} from './suite-case.ts'

const prompt = 'the a of and to in is'
const few = { prompt, max_tokens: 8, temperature: 0 }
const completions = '/v1/completions'
const textOf = ({ body }: Answered): string => body.choices[0].text
const streamedText = ({ events }: Answered) => events.map(({ choices: [choice] }) => choice?.text ?? '').join('')
const chat = (name: string, run: SuiteCase['run'], rest: Outcome): SuiteCase => ({
  purpose: 'chat',
  name,
  run,
  ...rest,
})

/** As many times as these change the request. */
async function textsOf(ask: Ask, changes: readonly Body[]): Promise<readonly string[]> {
  const texts: string[] = []
  for (const change of changes) texts.push(textOf(await ask(completions, { ...few, cache_prompt: false, ...change })))
  return texts
}
const tokens = [262, 263, 264]

const mixed = { facts: [400, undefined], row: 'Lists of several kinds' }
const listed = ({ status, body }: Answered) => [
  status,
  body.choices?.length ?? (Array.isArray(body) ? body.length : undefined),
]

export const llamaCompletions: readonly SuiteCase[] = [
  chat(
    'a completion',
    async (ask) => {
      const { status, body } = await ask(completions, few)
      return [status, body.choices[0].finish_reason, body.usage.completion_tokens]
    },
    { expected: [200, 'length', 8] },
  ),
  chat(
    'a stream says what the whole says',
    async (ask) => {
      const answers = [await ask(completions, few), await ask(completions, { ...few, stream: true })] as const
      return textOf(answers[0]) === streamedText(answers[1])
    },
    { expected: true },
  ),
  chat(
    'one seed, one text',
    async (ask) =>
      new Set(
        await textsOf(
          ask,
          [1, 2, 3, 4].map(() => ({ seed: 42 })),
        ),
      ).size,
    {
      expected: 1,
    },
  ),
  chat(
    'each seed its own text',
    async (ask) => {
      const seeds = [0, 1, 2, 3].map((seed) => ({ seed, temperature: 1, max_tokens: 32 }))
      return new Set(await textsOf(ask, seeds)).size
    },
    { expected: 4 },
  ),
  chat(
    'a text beyond the context',
    async (ask) => (await ask(completions, { ...few, prompt: 'b'.repeat(2_000) })).status,
    {
      expected: 400,
    },
  ),
  chat('tokens', async (ask) => typeof textOf(await ask(completions, { ...few, prompt: tokens })), {
    expected: 'string',
  }),
  chat(
    'two lists of tokens',
    async (ask) => {
      const { status, body } = await ask(completions, { ...few, prompt: [tokens, tokens] })
      return [status, body.choices.length, body.choices[0].text === body.choices[1].text]
    },
    { expected: [200, 2, true] },
  ),
  chat('tokens and a text', async (ask) => listed(await ask(completions, { ...few, prompt: [tokens, prompt] })), {
    expected: [200, 2],
    through: mixed,
  }),
  chat(
    'tokens and texts of one prompt',
    async (ask) => listed(await ask(completions, { ...few, prompt: [262, prompt, 263] })),
    {
      expected: [200, 1],
      through: mixed,
    },
  ),
  chat(
    'six at a time in one slot',
    async (ask) => {
      const answers = await Promise.all(Array.from({ length: 6 }, () => ask(completions, { ...few, seed: 42 })))
      return answers.map((answer) => [answer.status, textOf(answer).length > 0])
    },
    { expected: Array.from({ length: 6 }, () => [200, true]) },
  ),
  chat('its own path', async (ask) => (await ask('/completion', { ...few, n_predict: 2 })).status, {
    expected: 200,
    through: { facts: 404, row: 'Paths of llama.cpp' },
  }),
]

const vectors = '/v1/embeddings'
const lengths = ({ status, body }: Answered) => [
  status,
  (body.data ?? []).map(({ embedding }: { readonly embedding: readonly number[] }) => embedding.length > 1),
]
const embed = (name: string, input: unknown, look: (answered: Answered) => unknown, rest: Outcome) =>
  single('embed', name, [vectors, { input }], look, rest)
const ones = (count: number) => [200, Array.from({ length: count }, () => true)]
const notHere = { facts: [400, []], row: 'Inputs of an embedding' }
const kinds = { facts: [400, []], row: 'Lists of several kinds' }
const norm = ({ body }: Answered) =>
  Math.round(body.data[0].embedding.reduce((sum: number, each: number) => sum + each * each, 0) * 1_000) / 1_000
const token = 'the'

export const llamaEmbeddings: readonly SuiteCase[] = [
  embed('one text, of length one', prompt, norm, { expected: 1 }),
  embed('four texts', [prompt, 'in on', 'as', 'it is'], lengths, { expected: ones(4) }),
  embed('tokens', [262, 263], lengths, { expected: ones(1) }),
  embed('texts', [token, 'a'], lengths, { expected: ones(2) }),
  embed('lists of tokens', [[262, 263], [264]], lengths, { expected: ones(2) }),
  embed('no text', '', lengths, { expected: ones(1), through: notHere }),
  embed('tokens with a text between', [262, 'string', 263], lengths, { expected: ones(1), through: kinds }),
  embed('a text and tokens', [token, [262, 263]], lengths, { expected: ones(2), through: kinds }),
  embed('an object', { prompt_string: 'the a' }, lengths, { expected: ones(1), through: notHere }),
  embed('parts of content', { content: [{ type: 'text', text: 'the a' }] }, lengths, {
    expected: ones(1),
    through: notHere,
  }),
  embed('nothing', [], refusal, { expected: [400, true] }),
  embed('content that is a text', { content: 'string' }, refusal, { expected: [400, true] }),
  embed('a picture', { content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }, refusal, {
    expected: [400, true],
    server: [500, true],
  }),
  embed('too long', 'the '.repeat(4_000), ({ status }) => status === 200, { expected: false }),
  embed(
    'the same text thrice',
    [prompt, prompt, prompt],
    ({ body }) => {
      const [first = [], ...rest]: readonly (readonly number[])[] = body.data.map(({ embedding }: Answer) => embedding)
      // In one batch the sums are not in the same order.
      return rest.every((vector) => vector.every((each, at) => Math.abs(each - (first[at] ?? 9)) < 1e-3))
    },
    { expected: true },
  ),
  {
    purpose: 'embed',
    name: 'usage of two is twice that of one',
    run: async (ask) => {
      const one = (await ask(vectors, { input: prompt })).body.usage
      const two = (await ask(vectors, { input: [prompt, prompt] })).body.usage
      return [one.prompt_tokens === one.total_tokens, two.prompt_tokens / one.prompt_tokens]
    },
    expected: [true, 2],
  },
  {
    purpose: 'embed',
    name: 'base64 is the same vector',
    run: async (ask) => {
      const plain: readonly number[] = (await ask(vectors, { input: prompt })).body.data[0].embedding
      const coded = (await ask(vectors, { input: prompt, encoding_format: 'base64' })).body.data[0].embedding
      const floats = new Float32Array(Uint8Array.from(Buffer.from(coded, 'base64')).buffer)
      return [floats.length === plain.length, plain.every((each, at) => Math.abs(each - (floats[at] ?? 9)) < 1e-3)]
    },
    expected: [true, true],
  },
]

const ranking = '/v1/rerank'
const documents = ['the a of', 'in on as', 'and to in is it', 'it is']
const rank = (name: string, body: Body, look: (answered: Answered) => unknown, rest: Outcome) =>
  single('rank', name, [ranking, { query: prompt, ...body }], look, rest)
const countOf = ({ status, body }: Answered) => [
  status,
  body.results?.length ?? (Array.isArray(body) ? body.length : null),
]

export const llamaRankings: readonly SuiteCase[] = [
  rank('four documents', { documents }, countOf, { expected: [200, 4] }),
  ...[2, 4, 99].map((top) =>
    rank(`the best ${top}`, { documents, top_n: top }, countOf, { expected: [200, Math.min(top, 4)] }),
  ),
  rank('TEI’s texts', { texts: documents }, countOf, {
    expected: [200, 4],
    through: { facts: [400, null], row: 'TEI’s form of a ranking' },
  }),
  rank('no documents', { documents: [] }, refusal, { expected: [400, true] }),
  rank('documents: null', { documents: null }, refusal, { expected: [400, true] }),
  rank('documents: a number', { documents: 123 }, refusal, { expected: [400, true] }),
  rank('documents: numbers', { documents: [1, 2, 3] }, refusal, { expected: [400, true] }),
  rank(
    'usage',
    { documents },
    ({ body: { usage } }) => [usage.prompt_tokens > 0, usage.prompt_tokens === usage.total_tokens],
    {
      expected: [true, true],
    },
  ),
]
