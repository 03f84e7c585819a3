import type { ChatMetadata } from '../wire/inference/chat.ts'
import type { ChunkIdentity } from './chunk-reader.ts'
import { type TokenUsage, wireUsage } from './token-usage.ts'

type Json = Readonly<Record<string, unknown>>

/** A settled answer that goes out as a stream. */
export interface BufferedAnswer {
  readonly identity: ChunkIdentity
  readonly message: Record<string, unknown>
  readonly finishReason: string
  readonly logprobs?: unknown
  readonly usage: TokenUsage
  /** `svc` of the terminal chunk. */
  readonly metadata: ChatMetadata
  /** The client asked for a usage chunk of its own. */
  readonly separateUsage: boolean
}

/** Of text in one chunk (§6), UTF-16 units. */
export const sliceUnitsMax = 2_048

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit <= 0xdbff

/** Whole characters, at most `sliceUnitsMax` units each. */
function* slices(text: string): Generator<string> {
  for (let from = 0; from < text.length; ) {
    let to = Math.min(text.length, from + sliceUnitsMax)
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to--
    yield text.slice(from, to)
    from = to
  }
}

/** Tool calls of a stream are numbered, those of a whole answer are not. */
const numbered = (calls: readonly unknown[]) =>
  calls.map((call, index) => (typeof call === 'object' && call !== null ? { ...call, index } : call))

/** Thoughts and refusals come before the text, as models stream them; each text in slices, the rest unchanged. */
function* deltas({ role: _, content, ...others }: Json): Generator<Json> {
  const whole: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(others)) {
    if (value === null || value === undefined) continue
    if (typeof value === 'string') for (const slice of slices(value)) yield { [key]: slice }
    else whole[key] = key === 'tool_calls' && Array.isArray(value) ? numbered(value) : value
  }
  if (typeof content === 'string') for (const slice of slices(content)) yield { content: slice }
  else if (content !== null && content !== undefined) whole.content = content
  if (Object.keys(whole).length > 0) yield whole
}

/** The events of a buffered answer (§6): role, slices, terminal chunk with usage and metadata, `[DONE]`. */
export function* answerEvents(answer: BufferedAnswer): Generator<string> {
  const { metadata: svc, finishReason, logprobs } = answer
  const usage = wireUsage(answer.usage)
  const head = { ...answer.identity, object: 'chat.completion.chunk' }
  const { id, created, model, object } = head
  const event = (choices: readonly Json[], extra: Json = {}) =>
    `data: ${JSON.stringify({ id, object, created, model, choices, ...extra })}\n\n`
  const choice = (delta: Json, reason: string | null = null) => ({ index: 0, delta, finish_reason: reason })
  yield event([choice({ role: 'assistant', content: '' })])
  for (const delta of deltas(answer.message)) yield event([choice(delta)])
  const finish = { ...choice({}, finishReason), ...(logprobs === undefined ? {} : { logprobs }) }
  if (answer.separateUsage) yield event([finish]) + event([], { usage, svc })
  else yield event([finish], { usage, svc })
  yield 'data: [DONE]\n\n'
}
