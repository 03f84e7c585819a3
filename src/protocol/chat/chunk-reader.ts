import { foreignJson } from '../json/foreign-json.ts'
import { isObject, type Json } from '../json/json-object.ts'
import type { ChatMetadata } from '../wire/inference/chat.ts'
import { outputWeight } from './token-estimate.ts'
import { type TokenUsage, tokenCount } from './token-usage.ts'

/** What all chunks of one answer share, whatever the node says. */
export interface ChunkIdentity {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

/** `malformed`: skip the line; `failed`: the node reported an error instead of a chunk. */
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

/** null where the node reported nothing usable. Detail objects (`prompt_tokens_details`, …) stay behind. */
export function readUsage(value: unknown): TokenUsage | null {
  if (!isObject(value)) return null
  const prompt = tokenCount(value.prompt_tokens)
  const completion = tokenCount(value.completion_tokens)
  if (prompt === null || completion === null) return null
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

/**
 * Tokens of the prompt that the node found in its cache: by OpenAI's name, or by llama.cpp's (`cache_n`). null where it does
 * not say.
 */
export function readCachedTokens({ usage, timings }: Json): number | null {
  const details = isObject(usage) ? usage.prompt_tokens_details : null
  const told = isObject(details) ? tokenCount(details.cached_tokens) : null
  return told ?? (isObject(timings) ? tokenCount(timings.cache_n) : null)
}

/** The error shapes that nodes put under a 200 (§6). */
export function isErrorBody(value: Json): boolean {
  return (value.error !== undefined && value.error !== null) || value.object === 'error'
}

export interface SettledEnd {
  readonly usage: TokenUsage
  readonly metadata: ChatMetadata
}

/** A comment: no client takes it for an event. */
export const keepAlive = ': svc processing\n\n'

type Read = readonly Json[] | 'malformed' | 'failed'

/** Reads a node's chunks one by one: choices by allow-list (§6), and what they say beside their text. */
export abstract class ChunkReader {
  /** The finish chunk's choices, once seen. */
  finish: readonly Json[] | null = null
  usage: TokenUsage | null = null
  cachedTokens: number | null = null
  /** The last `svc` that the node put into a chunk: an agent's receipt. Looked at by nobody before it is checked. */
  svc: unknown
  /** `usage` came with the finish chunk or after it; what comes before may be a running count. */
  usageFinal = false
  /** Weight of all text that passed, for the estimate where usage is absent. */
  outputWeight = 0
  contentSeen = false

  protected read(data: string): Read {
    const chunk = foreignJson(data)
    if (!isObject(chunk)) return 'malformed'
    if (isErrorBody(chunk)) return 'failed'
    const usage = readUsage(chunk.usage)
    if (usage !== null) {
      this.usage = usage
      this.cachedTokens = readCachedTokens(chunk)
    }
    if (chunk.svc !== undefined) this.svc = chunk.svc
    const choices = Array.isArray(chunk.choices) ? this.publicChoices(chunk.choices) : []
    // Some nodes finish twice: the text that the first one carries must not go with it.
    if (choices.some(finishes) && (this.finish === null || !choices.every(saysNothing))) this.finish = choices
    if (usage !== null && this.finish !== null) this.usageFinal = true
    return choices
  }

  private publicChoices(choices: readonly unknown[]): Json[] {
    const out: Json[] = []
    for (const choice of choices) {
      if (!isObject(choice)) continue
      const delta = isObject(choice.delta) ? choice.delta : {}
      this.weigh(delta)
      const finish = choice.finish_reason
      out.push({
        index: tokenCount(choice.index) ?? 0,
        delta,
        finish_reason: finish === null || finish === undefined || finish === '' ? null : knownFinishReason(finish),
        ...(isObject(choice.logprobs) ? { logprobs: choice.logprobs } : {}),
      })
    }
    return out
  }

  private weigh(delta: Json): void {
    const weight = outputWeight(delta)
    if (weight === 0) return
    this.contentSeen = true
    this.outputWeight += weight
  }
}
