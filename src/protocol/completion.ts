import { answerEnd } from './answer-end.ts'
import { type ChunkIdentity, isErrorBody, knownFinishReason, readUsage, type TokenUsage } from './chunk-rewriter.ts'
import { jsonString } from './json-text.ts'
import { textWeight } from './token-estimate.ts'
import type { ChatMetadata } from './wire/chat.ts'

type Json = Record<string, unknown>
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

export interface PublicCompletion {
  /** `index`, `message` verbatim, `finish_reason`, `logprobs`: what else a node adds can name its paths (decisions §5). */
  readonly choices: readonly object[]
  readonly usage: TokenUsage | null
  /** As the node wrote it: an agent's receipt. Looked at by nobody before it is checked. */
  readonly svc: unknown
  /** Weight of the text, reasoning and tool calls of the answer, unrounded; counted only when asked. */
  readonly outputWeight: () => number
}

function messageWeight(message: Json): number {
  let weight = 0
  for (const [key, value] of Object.entries(message)) {
    if (key === 'role' || value === null || value === undefined) continue
    weight += typeof value === 'string' ? textWeight(value) : 0.3 * JSON.stringify(value).length
  }
  return weight
}

/** A node's whole answer by allow-list; null when it is an error or no completion at all. */
export function publicCompletion(text: string): PublicCompletion | null {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return null
  }
  if (!isObject(body) || isErrorBody(body) || !Array.isArray(body.choices) || body.choices.length === 0) return null
  const messages: Json[] = []
  const choices: object[] = []
  for (const choice of body.choices) {
    if (!isObject(choice) || !isObject(choice.message)) return null
    messages.push(choice.message)
    choices.push({
      index: typeof choice.index === 'number' ? choice.index : choices.length,
      message: choice.message,
      finish_reason: knownFinishReason(choice.finish_reason),
      ...(isObject(choice.logprobs) ? { logprobs: choice.logprobs } : {}),
    })
  }
  return {
    choices,
    usage: readUsage(body.usage),
    svc: body.svc,
    outputWeight: () => messages.reduce((sum, message) => sum + messageWeight(message), 0),
  }
}

/** The body of a whole answer, as it goes on the wire. */
export function completionText(
  { id, created, model }: ChunkIdentity,
  choices: readonly object[],
  usage: TokenUsage,
  metadata: ChatMetadata,
): string {
  return `{"id":"${id}","object":"chat.completion","created":${created},"model":${jsonString(model)},"choices":${JSON.stringify(choices)}${answerEnd(usage, metadata)}}`
}
