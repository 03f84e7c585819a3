import { type Stopped, stoppedAt } from '../dialects/members/matched-stop.ts'
import { timingsOf } from '../dialects/members/server-reports.ts'
import { foreignJson } from '../json/foreign-json.ts'
import { isObject, type Json } from '../json/json-object.ts'
import { jsonString } from '../json/json-text.ts'
import { choicesMax, toolCallsMax } from './answer-bounds.ts'
import { answerEnd, metadataMember } from './answer-end.ts'
import {
  type AnswerMetadata,
  type ChunkIdentity,
  isErrorBody,
  knownFinishReason,
  readCachedTokens,
  readUsage,
} from './chunk-reader.ts'
import { outputWeight } from './token-estimate.ts'
import { type TokenUsage, wireUsage } from './token-usage.ts'

/** What else a node adds can name its paths (§5). */
export interface PublicChoice extends Stopped {
  readonly index: number
  /** Verbatim. */
  readonly message: Json
  readonly finish_reason: string
  readonly logprobs?: Json
}

export interface PublicCompletion {
  readonly choices: readonly PublicChoice[]
  readonly usage: TokenUsage | null
  /** Of the prompt, found in the node's cache; null: it does not say. */
  readonly cachedTokens: number | null
  /** What its server reports of its times. */
  readonly timings: Json | null
  /** An agent's receipt as the node wrote it. Unchecked. */
  readonly svc: unknown
  /** Weight of the text, reasoning and tool calls of the answer, unrounded; counted only when asked. */
  readonly outputWeight: () => number
}

export const areChoices = (value: unknown): value is readonly unknown[] =>
  Array.isArray(value) && value.length > 0 && value.length <= choicesMax

const callsTooMuch = ({ tool_calls: calls }: Json) => Array.isArray(calls) && calls.length > toolCallsMax

/** A node's whole answer by allow-list; null when it is an error or no completion at all. */
export function publicCompletion(text: string): PublicCompletion | null {
  const body = foreignJson(text)
  if (!isObject(body) || isErrorBody(body) || !areChoices(body.choices)) return null
  const choices: PublicChoice[] = []
  for (const choice of body.choices) {
    if (!isObject(choice) || !isObject(choice.message) || callsTooMuch(choice.message)) return null
    const { message, logprobs } = choice
    const index = typeof choice.index === 'number' ? choice.index : choices.length
    const reason = knownFinishReason(choice.finish_reason)
    const ended = { index, message, finish_reason: reason, ...stoppedAt(choice) }
    choices.push(isObject(logprobs) ? { ...ended, logprobs } : ended)
  }
  return completionOf(choices, readUsage(body), body.svc, readCachedTokens(body), timingsOf(body.timings))
}

/** `svc`: as the node wrote it. */
export function completionOf(
  choices: readonly PublicChoice[],
  usage: TokenUsage | null,
  svc: unknown,
  cachedTokens: number | null = null,
  timings: Json | null = null,
): PublicCompletion {
  const weight = () => choices.reduce((sum, { message }) => sum + outputWeight(message), 0)
  return { choices, usage, cachedTokens, timings, svc, outputWeight: weight }
}

/**
 * The body of a whole answer, as it goes on the wire. The engine's own writer makes all of it at once, which takes two thirds of the
 * time of a template with its pieces; only reports are text already.
 */
export function completionText(
  { id, created, model }: ChunkIdentity,
  choices: readonly PublicChoice[],
  usage: TokenUsage,
  metadata: AnswerMetadata,
  /** What `reportMembers` made. */
  reports = '',
): string {
  const object = 'chat.completion'
  if (reports === '')
    return JSON.stringify({
      id,
      object,
      created,
      model,
      choices,
      usage: wireUsage(usage),
      svc: metadataMember(metadata),
    })
  return `{"id":"${id}","object":"${object}","created":${created},"model":${jsonString(model)},"choices":${JSON.stringify(choices)}${reports}${answerEnd(usage, metadata)}}`
}
