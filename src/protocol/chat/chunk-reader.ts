import { stoppedAt } from '../dialects/members/matched-stop.ts'
import { timingsOf } from '../dialects/members/server-reports.ts'
import { chunkJson, tooMuch } from '../json/foreign-json.ts'
import { isObject, type Json } from '../json/json-object.ts'
import type { ChatMetadata } from '../wire/inference/chat.ts'
import { AnswerCount, choicesMax } from './answer-bounds.ts'
import { thoughtOf } from './thought.ts'
import { outputWeight } from './token-estimate.ts'
import { type TokenUsage, tokenCount, withDetails } from './token-usage.ts'

/** Shared by all chunks of one answer, regardless of the node's values. */
export interface ChunkIdentity {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

/** `malformed`: skip the line; `failed`: the node reported an error in the place of a chunk, or its answer exceeds a bound. */
export type Accepted =
  | { readonly kind: 'chunk'; readonly text: string }
  | { readonly kind: 'nothing' }
  | { readonly kind: 'malformed' }
  | { readonly kind: 'failed' }

export const saysNothing = (choice: Json) =>
  isObject(choice.delta) &&
  Object.entries(choice.delta).every(([key, value]) => key === 'role' || value === null || value === '')
export const finishes = (choice: Json) => choice.finish_reason !== null
const finishReasons = new Set(['stop', 'length', 'tool_calls', 'content_filter'])

/** An unknown value of a node becomes `stop` (§5). */
export function knownFinishReason(reason: unknown): string {
  return typeof reason === 'string' && finishReasons.has(reason) ? reason : 'stop'
}

/** Of an answer or a chunk; null where the node reported nothing usable. Of the details, those that clients are told pass. */
export function readUsage(body: Json): TokenUsage | null {
  const { usage: value } = body
  if (!isObject(value)) return null
  const prompt = tokenCount(value.prompt_tokens)
  const completion = tokenCount(value.completion_tokens)
  if (prompt === null || completion === null) return null
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  const [cached, reasoning] = [readCachedTokens(body), readReasoningTokens(value)]
  return cached === null && reasoning === null ? usage : withDetails(usage, cached, reasoning)
}

function readReasoningTokens({ completion_tokens_details: details, reasoning_tokens: own }: Json): number | null {
  // SGLang has the number beside the others.
  return (isObject(details) ? tokenCount(details.reasoning_tokens) : null) ?? tokenCount(own)
}

/**
 * Tokens of the prompt that the node found in its cache: by OpenAI's name, or by llama.cpp's (`cache_n`). null where it does
 * not say.
 */
export function readCachedTokens({ usage, timings }: Json): number | null {
  const details = isObject(usage) ? usage.prompt_tokens_details : null
  const cached = isObject(details) ? tokenCount(details.cached_tokens) : null
  return cached ?? (isObject(timings) ? tokenCount(timings.cache_n) : null)
}

/** The error shapes that nodes put under a 200 (§6). */
export function isErrorBody(value: Json): boolean {
  return (value.error !== undefined && value.error !== null) || value.object === 'error'
}

/** Of a sealed answer the receipt comes after its last byte, and the seal tells the node's own name of the model. */
export type AnswerMetadata = Omit<ChatMetadata, 'receipt_hash'> &
  Partial<Pick<ChatMetadata, 'receipt_hash'>> & { readonly upstream_model?: string }

export interface SettledEnd {
  readonly usage: TokenUsage
  readonly metadata: AnswerMetadata
}

/** A comment: no client takes it for an event. */
export const keepAlive = ': svc processing\n\n'

type Read = readonly Json[] | 'malformed' | 'failed'

const saysText = ({ content, refusal }: Json) => {
  const text = content ?? refusal
  return text !== undefined && text !== null && text !== ''
}

/** Reads a node's chunks one by one: choices by allow-list (§6), and their facts besides the text. */
export abstract class ChunkReader {
  /** The finish chunk's choices, once seen. */
  finish: readonly Json[] | null = null
  usage: TokenUsage | null = null
  cachedTokens: number | null = null
  /** The last `svc` that the node put into a chunk: an agent's receipt. Unchecked. */
  svc: unknown
  /** What the server last reported of its times (llama.cpp). */
  timings: Json | null = null
  /** `usage` came with the finish chunk or after it; an earlier one may be a running count. */
  usageFinal = false
  /** Weight of all text that passed, for the estimate where usage is absent. */
  outputWeight = 0
  contentSeen = false
  protected readonly count = new AnswerCount()

  /** Kept bytes of its input; most readers keep none. */
  get keptBytes(): number {
    return 0
  }

  protected read(data: string): Read {
    const chunk = chunkJson(data)
    // Such a chunk may hold any number of calls: to pass over it would leave a hole in the answer.
    if (chunk === tooMuch) return 'failed'
    if (!isObject(chunk)) return 'malformed'
    if (isErrorBody(chunk)) return 'failed'
    const usage = readUsage(chunk)
    if (usage !== null) {
      this.usage = usage
      this.cachedTokens = readCachedTokens(chunk)
    }
    if (chunk.svc !== undefined) this.svc = chunk.svc
    if (chunk.timings !== undefined) this.timings = timingsOf(chunk.timings)
    this.reported(chunk)
    const choices = Array.isArray(chunk.choices) ? this.publicChoices(chunk.choices) : []
    if (choices === null) return 'failed'
    // Some nodes finish twice: the text that the first one carries must not go with it.
    if (choices.some(finishes) && (this.finish === null || !choices.every(saysNothing))) this.finish = choices
    if (usage !== null && this.finish !== null) this.usageFinal = true
    return choices
  }

  /** Called with each chunk before its choices are read. */
  protected reported(_chunk: Json): void {}

  /** null: the answer exceeds a bound. */
  private publicChoices(choices: readonly unknown[]): Json[] | null {
    if (choices.length > choicesMax) return null
    const out: Json[] = []
    for (const choice of choices) {
      if (!isObject(choice)) continue
      const index = tokenCount(choice.index) ?? 0
      const delta = this.counted(index, isObject(choice.delta) ? choice.delta : {})
      if (delta === null) return null
      this.weigh(delta)
      const finish = choice.finish_reason
      const ends = finish !== null && finish !== undefined && finish !== ''
      out.push({
        index,
        delta,
        finish_reason: ends ? knownFinishReason(finish) : null,
        ...(ends ? stoppedAt(choice) : null),
        ...(isObject(choice.logprobs) ? { logprobs: choice.logprobs } : {}),
      })
    }
    return out
  }

  /** In the order in which dialects write the parts of one chunk. null: these are more than an answer may have. */
  private counted(index: number, delta: Json): Json | null {
    const { count } = this
    if (thoughtOf(delta) !== '' && !count.enters('thought')) return null
    if (saysText(delta) && !count.enters('text')) return null
    const { tool_calls: calls } = delta
    if (!Array.isArray(calls) || calls.length === 0) return delta
    const placed = count.enters('calls') ? count.placed(index, calls) : null
    return placed === null || placed === calls ? placed && delta : { ...delta, tool_calls: placed }
  }

  private weigh(delta: Json): void {
    const weight = outputWeight(delta)
    if (weight === 0) return
    this.contentSeen = true
    this.outputWeight += weight
  }
}
