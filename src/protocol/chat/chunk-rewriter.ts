import { foreignJson } from '../json/foreign-json.ts'
import { isObject, type Json } from '../json/json-object.ts'
import { jsonString } from '../json/json-text.ts'
import type { ChatMetadata } from '../wire/inference/chat.ts'
import { answerEnd } from './answer-end.ts'
import { asciiWeight, textWeight } from './token-estimate.ts'
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

const nothing: Accepted = { kind: 'nothing' }
const malformed: Accepted = { kind: 'malformed' }
const failed: Accepted = { kind: 'failed' }

export const saysNothing = (choice: Json) =>
  isObject(choice.delta) &&
  Object.entries(choice.delta).every(([key, value]) => key === 'role' || value === null || value === '')
const finishes = (choice: Json) => choice.finish_reason !== null
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

interface Template {
  readonly prefix: string
  readonly suffix: string
  readonly outPrefix: string
  readonly outSuffix: string
}

/** A JSON string's inside as RFC 8259 allows it: what lies between a learnt prefix and suffix must be just that. */
const jsonStringInside = /^(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*$/
const marker = '@penstock-content@'
/** Printable, and nothing that JSON escapes. */
const plainAscii = /^[ !#-[\]-~]*$/
/** Nodes that vary their chunks (a clock in `created`) would make every chunk a lesson: then learn only now and then. */
const lessonsMax = 8
/** A lesson costs as much as three chunks: a stream that short is not worth one. */
const lessonFrom = 4
const lessonEvery = 32

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
    for (const [key, value] of Object.entries(delta)) {
      if (key === 'role' || value === null || value === '') continue
      this.contentSeen = true
      this.outputWeight += typeof value === 'string' ? textWeight(value) : 0.3 * JSON.stringify(value).length
    }
  }
}

/**
 * Rewrites a node's chunks: `delta` verbatim, our own id, time and model (§6). Chunks that differ from the last
 * only in one text are spliced without parsing; measured in bench/RESULTS.md.
 */
export class ChunkRewriter extends ChunkReader {
  readonly keepAlive = keepAlive
  roleSent = false
  private template: Template | null = null
  private lessons = 0
  private chunks = 0
  private readonly head: string

  constructor(identity: ChunkIdentity) {
    super()
    this.head = `{"id":${jsonString(identity.id)},"object":"chat.completion.chunk","created":${identity.created},"model":${jsonString(identity.model)},"choices":`
  }

  accept(data: string): Accepted {
    this.chunks++
    const template = this.template
    if (template !== null && data.startsWith(template.prefix) && data.endsWith(template.suffix)) {
      const inside = data.slice(template.prefix.length, data.length - template.suffix.length)
      if (data.length >= template.prefix.length + template.suffix.length && this.weighInside(inside)) {
        if (inside !== '') this.contentSeen = true
        return { kind: 'chunk', text: template.outPrefix + inside + template.outSuffix }
      }
    }
    return this.parse(data)
  }

  /** False for what is not the inside of one JSON string. Most chunks are plain ASCII: one look then serves both ends. */
  private weighInside(inside: string): boolean {
    if (plainAscii.test(inside)) this.outputWeight += asciiWeight * inside.length
    else if (jsonStringInside.test(inside)) {
      this.outputWeight += textWeight(inside.includes('\\') ? (foreignJson(`"${inside}"`) as string) : inside)
    } else return false
    return true
  }

  private parse(data: string): Accepted {
    const choices = this.read(data)
    if (choices === 'malformed') return malformed
    if (choices === 'failed') return failed
    if (choices.length === 0 || choices.some(finishes)) return nothing
    const text = this.chunk(choices)
    this.learn(data, choices)
    return { kind: 'chunk', text }
  }

  /** One event; the first also carries the role, synthesised where the node left it out. */
  chunk(choices: readonly Json[], extra = ''): string {
    const body = `${this.head}${JSON.stringify(choices)}${extra}}`
    if (this.roleSent) return `data: ${body}\n\n`
    this.roleSent = true
    const first = choices[0]
    if (isObject(first?.delta) && 'role' in first.delta) return `data: ${body}\n\n`
    return `${this.role()}data: ${body}\n\n`
  }

  private role(): string {
    return `data: ${this.head}[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n`
  }

  private learn(data: string, choices: readonly Json[]): void {
    const [choice] = choices
    if (choices.length !== 1 || choice === undefined || !isObject(choice.delta)) return
    if (this.chunks < lessonFrom || (this.lessons >= lessonsMax && this.chunks % lessonEvery !== 0)) return
    // Ollama and LM Studio repeat the role in every chunk, before the text.
    const keys = Object.keys(choice.delta)
    const key = keys.at(-1)
    if (key === undefined || key === 'role' || typeof choice.delta[key] !== 'string') return
    if (keys.length > 2 || (keys.length === 2 && keys[0] !== 'role')) return
    this.lessons++
    this.template = this.templateOf(data, key, choice.delta, choice)
  }

  private templateOf(data: string, key: string, delta: Json, choice: Json): Template | null {
    const opening = `"delta":${JSON.stringify({ ...delta, [key]: '' }).slice(0, -2)}`
    const at = data.indexOf(opening)
    if (at === -1) return null
    const start = at + opening.length
    let end = start
    while (end < data.length && data.charCodeAt(end) !== 34) end += data.charCodeAt(end) === 92 ? 2 : 1
    const prefix = data.slice(0, start)
    const suffix = data.slice(end)
    // The place found must be the very text of choices[0].delta, not the like of it elsewhere in the chunk.
    const probe = foreignJson(prefix + marker + suffix) as { choices: { delta: Json }[] } | undefined
    if (probe?.choices[0]?.delta[key] !== marker) return null
    const out = `data: ${this.head}${JSON.stringify([{ ...choice, delta: { ...delta, [key]: marker } }])}}\n\n`
    // A node may send the marker itself, in logprobs or as a key: then the place of the text is not certain.
    const [outPrefix, outSuffix, ...more] = out.split(marker)
    return outPrefix === undefined || outSuffix === undefined || more.length > 0
      ? null
      : { prefix, suffix, outPrefix, outSuffix }
  }

  /** The finish chunk as the node had it, for a client that asked for a usage chunk of its own. */
  finishChunk(): string {
    return this.chunk(this.finish ?? [])
  }

  /**
   * The terminal chunk: the held finish chunk with usage and metadata, or, with `separate`, a chunk without choices
   * (OpenAI's `include_usage`). `members`: what `answerEnd` made. `[DONE]` follows.
   */
  terminal(members: string, separate: boolean): string {
    if (!separate) return `${this.chunk(this.finish ?? [], members)}data: [DONE]\n\n`
    return `data: ${this.head}[]${members}}\n\ndata: [DONE]\n\n`
  }

  /** The same, of an answer that is settled. */
  last({ usage, metadata }: SettledEnd, separate: boolean): string {
    return this.terminal(answerEnd(usage, metadata), separate)
  }

  /** A failure inside the stream; no `[DONE]` follows, so that no client takes it for an end. */
  failure(error: object): string {
    // Clients that match an event against the type of a chunk first would drop `error` and end in silence; a usage of
    // the wrong type makes it no chunk for them (docs/decisions/0005).
    const extra = `,"usage":false,"error":${JSON.stringify(error)}`
    return `data: ${this.head}[{"index":0,"delta":{},"finish_reason":"error"}]${extra}}\n\n`
  }
}
