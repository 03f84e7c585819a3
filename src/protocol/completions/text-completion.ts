import { choicesMax } from '../chat/answer-bounds.ts'
import { answerEnd } from '../chat/answer-end.ts'
import {
  type Accepted,
  type ChunkIdentity,
  isErrorBody,
  keepAlive,
  knownFinishReason,
  readCachedTokens,
  readUsage,
  type SettledEnd,
} from '../chat/chunk-reader.ts'
import { areChoices } from '../chat/completion.ts'
import { textWeight } from '../chat/token-estimate.ts'
import type { TokenUsage } from '../chat/token-usage.ts'
import { type ReportsAsked, reportMembers, timingsOf } from '../dialects/members/server-reports.ts'
import { chunkJson, foreignJson, tooMuch } from '../json/foreign-json.ts'
import { isObject, type Json } from '../json/json-object.ts'

/** A completion's choice by allow-list: what else a node adds can name its paths. */
export interface TextChoice {
  readonly index: number
  readonly text: string
  readonly logprobs: Json | null
  readonly finish_reason: string | null
}

function choiceOf(value: unknown): TextChoice | null {
  if (!isObject(value) || typeof value.text !== 'string') return null
  const { index, text, logprobs, finish_reason: reason } = value
  return {
    index: typeof index === 'number' && Number.isSafeInteger(index) ? index : 0,
    text,
    logprobs: isObject(logprobs) ? logprobs : null,
    finish_reason: reason === null || reason === undefined || reason === '' ? null : knownFinishReason(reason),
  }
}

export interface TextAnswer {
  readonly texts: readonly TextChoice[]
  readonly usage: TokenUsage | null
  readonly cachedTokens: number | null
  readonly timings: Json | null
  readonly svc: unknown
}

/** A node's whole answer; null when it is an error or no completion at all. */
export function readTextCompletion(text: string): TextAnswer | null {
  const body = foreignJson(text)
  if (!isObject(body) || isErrorBody(body) || !areChoices(body.choices)) return null
  const texts = body.choices.map(choiceOf)
  if (texts.some((choice) => choice === null)) return null
  const { svc } = body
  return {
    texts: texts as TextChoice[],
    usage: readUsage(body),
    cachedTokens: readCachedTokens(body),
    timings: timingsOf(body.timings),
    svc,
  }
}

export const textWeightOf = (texts: readonly TextChoice[]) => texts.reduce((sum, { text }) => sum + textWeight(text), 0)

function headOf({ id, created, model }: ChunkIdentity): string {
  return `{"id":${JSON.stringify(id)},"object":"text_completion","created":${created},"model":${JSON.stringify(model)},"choices":`
}

export function textCompletionText(
  identity: ChunkIdentity,
  texts: readonly TextChoice[],
  { usage, metadata }: SettledEnd,
  /** What `reportMembers` made. */
  reports = '',
): string {
  return `${headOf(identity)}${JSON.stringify(texts)}${reports}${answerEnd(usage, metadata)}}`
}

const nothing: Accepted = { kind: 'nothing' }
const failed: Accepted = { kind: 'failed' }

/** A node's chunks on their way to the client; the finish chunk waits for the usage, as in chat (§6). */
export class TextStream {
  readonly keepAlive = keepAlive
  finish: readonly (Json & TextChoice)[] | null = null
  usage: TokenUsage | null = null
  cachedTokens: number | null = null
  usageFinal = false
  svc: unknown
  outputWeight = 0
  contentSeen = false
  readonly keptBytes = 0
  private readonly head: string

  /** What the server last reported of its times. */
  private timings: Json | null = null

  /** What of the server's reports reaches the client. */
  private asked: ReportsAsked | null

  /** `wanted`: reports of the server's work that the client wants in its chunks. */
  constructor(
    identity: ChunkIdentity,
    private readonly wanted: ReportsAsked | null = null,
  ) {
    this.asked = wanted
    this.head = headOf(identity)
  }

  /** Another account's node reports to nobody but its owner (§35). */
  from(own: boolean): void {
    this.asked = own ? this.wanted : null
  }

  accept(data: string): Accepted {
    const chunk = chunkJson(data)
    if (chunk === tooMuch) return failed
    if (!isObject(chunk)) return { kind: 'malformed' }
    if (isErrorBody(chunk)) return failed
    const usage = readUsage(chunk)
    if (usage !== null) {
      this.usage = usage
      this.cachedTokens = readCachedTokens(chunk)
    }
    if (chunk.svc !== undefined) this.svc = chunk.svc
    if (chunk.timings !== undefined) this.timings = timingsOf(chunk.timings)
    const given = Array.isArray(chunk.choices) ? chunk.choices : []
    if (given.length > choicesMax) return failed
    const all = given.map(choiceOf)
    const choices = this.placed(all.filter((choice) => choice !== null))
    this.weigh(choices)
    const finished = choices.some(({ finish_reason: reason }) => reason !== null)
    if (finished && this.finish === null) this.finish = choices.map((choice) => ({ ...choice }))
    if (usage !== null && this.finish !== null) this.usageFinal = true
    if (choices.length === 0 || finished) return nothing
    return { kind: 'chunk', text: this.event(choices, reportMembers(chunk, this.asked)) }
  }

  /** Of a stream with several answers each has its own place. */
  protected placed(choices: readonly TextChoice[]): readonly TextChoice[] {
    return choices
  }

  private weigh(choices: readonly TextChoice[]): void {
    for (const { text } of choices) {
      if (text === '') continue
      this.contentSeen = true
      this.outputWeight += textWeight(text)
    }
  }

  private event(choices: readonly object[], extra = ''): string {
    return `data: ${this.head}${JSON.stringify(choices)}${extra}}\n\n`
  }

  finishChunk(): string {
    return this.event(this.finish ?? [])
  }

  last({ usage, metadata }: SettledEnd, separate: boolean): string {
    const end = reportMembers({ timings: this.timings }, this.asked) + answerEnd(usage, metadata)
    return `${this.event(separate ? [] : (this.finish ?? []), end)}data: [DONE]\n\n`
  }

  /** A failure inside the stream; no `[DONE]` follows, so that no client takes it for an end. */
  failure(error: object): string {
    return `data: ${this.head}[],"usage":false,"error":${JSON.stringify(error)}}\n\n`
  }
}
