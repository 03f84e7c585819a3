import fc from 'fast-check'

type Json = Record<string, unknown>

/** A node's whole answer, as `wholeAnswers` makes it. */
export interface WholeAnswer {
  readonly choices: readonly {
    readonly index: number
    readonly message: Json
    readonly finish_reason: string
    readonly logprobs: Json | null
  }[]
  readonly usage: object | null
  readonly [more: string]: unknown
}

const text = fc.string({ unit: 'grapheme', maxLength: 40 })
const toolCall = fc.record({
  id: fc.string({ minLength: 1, maxLength: 8 }),
  type: fc.constant('function'),
  function: fc.record({ name: fc.string({ minLength: 1, maxLength: 8 }), arguments: text }),
})
/** Members that nobody here knows: of any value but null, which a stream does not carry. */
const others = fc.dictionary(
  fc.string({ minLength: 1, maxLength: 8 }).map((key) => `x_${key}`),
  fc.jsonValue({ maxDepth: 2 }).filter((value) => value !== null),
  { maxKeys: 2 },
)
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })

const message = fc
  .record({
    content: text,
    reasoning_content: optional(text),
    refusal: optional(text),
    tool_calls: optional(fc.array(toolCall, { minLength: 1, maxLength: 3 })),
    others,
  })
  .map(({ others: more, content, ...rest }): Json => {
    const silent = (rest.tool_calls !== undefined || rest.refusal !== undefined) && content === ''
    return { role: 'assistant', content: silent ? null : content, ...rest, ...more }
  })

const token = fc.record({
  token: text,
  logprob: fc.double({ noNaN: true, noDefaultInfinity: true }),
  bytes: fc.constant(null),
})
const choice = fc.record({
  message,
  finish_reason: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter', 'eos'),
  logprobs: fc.option(fc.record({ content: fc.array(token, { minLength: 1, maxLength: 4 }) })),
  stop_reason: fc.constant('/srv/weights.gguf'),
})

/** Whole answers of the shapes that servers give, with members that no client may see. */
export const wholeAnswers: fc.Arbitrary<WholeAnswer> = fc
  .record({
    choices: fc.array(choice, { minLength: 1, maxLength: 3 }),
    usage: fc.option(fc.record({ prompt_tokens: fc.nat(9_999), completion_tokens: fc.nat(9_999) })),
    model: fc.constant('/srv/weights.gguf'),
    timings: fc.constant({ predicted_ms: 1 }),
  })
  .map(({ choices, ...rest }) => ({
    ...rest,
    object: 'chat.completion',
    choices: choices.map((each, index) => ({ index, ...each })),
  }))

/** In pieces of whole characters. */
function slices(value: string, next: (max: number) => number): string[] {
  const units = [...value]
  const pieces: string[] = []
  for (let from = 0; from < units.length; ) {
    const length = 1 + next(8)
    pieces.push(units.slice(from, from + length).join(''))
    from += length
  }
  return pieces.length === 0 ? [''] : pieces
}

function* callDeltas(calls: readonly Json[], next: (max: number) => number): Generator<Json> {
  for (const [index, call] of calls.entries()) {
    const { name, arguments: given } = call.function as { readonly name: string; readonly arguments: string }
    yield { tool_calls: [{ index, ...call, function: { name, arguments: '' } }] }
    for (const piece of slices(given, next)) yield { tool_calls: [{ index, function: { arguments: piece } }] }
  }
}

/** What a model says, in the order of its members, each text in pieces. */
function* deltasOf({ role, ...said }: Json, next: (max: number) => number): Generator<Json> {
  yield { role, content: null }
  for (const [key, value] of Object.entries(said)) {
    if (value === null || value === undefined) continue
    if (key === 'tool_calls') yield* callDeltas(value as Json[], next)
    else if (typeof value === 'string') for (const piece of slices(value, next)) yield { [key]: piece }
    else yield { [key]: value }
  }
}

function* chunksOf(whole: WholeAnswer, next: (max: number) => number): Generator<Json> {
  for (const { index, message: said, finish_reason: finish, logprobs, ...more } of whole.choices) {
    const chunk = (delta: Json, reason: string | null, tokens: unknown[] | null): Json => ({
      id: 'chatcmpl-node',
      model: '/srv/weights.gguf',
      choices: [
        { index, delta, finish_reason: reason, ...more, logprobs: tokens === null ? null : { content: tokens } },
      ],
    })
    const tokens = [...((logprobs?.content as unknown[] | undefined) ?? [])]
    for (const delta of deltasOf(said, next))
      yield chunk(delta, null, tokens.length > 0 && next(1) === 0 ? [tokens.shift()] : null)
    if (tokens.length > 0) yield chunk({}, null, tokens)
    yield chunk({}, finish, null)
  }
}

/** The stream that a node would send of this answer. `next`: a whole number from 0 to the given one. */
export function streamOf(whole: WholeAnswer, next: (max: number) => number): Uint8Array {
  const events = [...chunksOf(whole, next)].map((chunk) => `data: ${JSON.stringify(chunk)}`)
  const { usage: used, timings } = whole
  const told = { choices: [], ...(used === null ? {} : { usage: used }), ...(timings === undefined ? {} : { timings }) }
  const usage = used === null && timings === undefined ? [] : [`data: ${JSON.stringify(told)}`]
  const end = next(3) === 0 ? '\r\n\r\n' : '\n\n'
  const lines = [...events, ...usage, 'data: [DONE]'].map(
    (event) => (next(9) === 0 ? `: still here\n\n${event}` : event) + end,
  )
  return new TextEncoder().encode(lines.join(''))
}

export function* cutAt(bytes: Uint8Array, cuts: readonly number[]): Generator<Uint8Array> {
  let from = 0
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    yield bytes.slice(from, cut)
    from = cut
  }
  yield bytes.slice(from)
}
