import { type Static, Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/** How a healthy answer looks; every field can be changed while the node runs (`POST /answer`). */
export const Answer = t.Object(
  {
    /** Content chunks of an answer; `max_tokens` of the request may make it fewer. */
    chunks: t.Integer({ minimum: 0, maximum: 1_000_000 }),
    intervalMs: t.Number({ minimum: 0, maximum: 3_600_000 }),
    /** Before the first chunk (stream) or the whole answer. */
    firstTokenMs: t.Number({ minimum: 0, maximum: 3_600_000 }),
    /** Chunk i is `<marker><i> `, unless `text` gives the whole answer, cut into `chunks` pieces. */
    marker: t.String({ maxLength: 256 }),
    text: t.Union([t.String({ maxLength: 1_000_000 }), t.Null()]),
    /** Sent as `reasoning_content` before the text. */
    reasoning: t.Union([t.String({ maxLength: 1_000_000 }), t.Null()]),
    /** `auto`: a request with `tools` gets a call of the first one. */
    toolCalls: t.Union([t.Literal('auto'), t.Literal('never')]),
    finishReason: t.String({ maxLength: 64 }),
    /** The last piece of text stands inside the chunk that carries `finish_reason`. */
    textInFinish: t.Boolean(),
    roleChunk: t.Boolean(),
    /** Adds what real servers leak: local paths, host names, extra keys on the body, the chunks and the choices. */
    leak: t.Boolean(),
    usage: t.Union([t.Record(t.String(), t.Unknown()), t.Null()]),
    usageIn: t.Union([t.Literal('ownChunk'), t.Literal('finishChunk')]),
    /** Usage comes even where `stream_options.include_usage` was not asked for. */
    usageUnasked: t.Boolean(),
    doneLine: t.Boolean(),
  },
  { additionalProperties: false },
)
export type Answer = Static<typeof Answer>

const PartialAnswer = t.Partial(Answer, { additionalProperties: false })

export function isPartialAnswer(body: unknown): body is Partial<Answer> {
  return Value.Check(PartialAnswer, body)
}

export function defaultAnswer(marker: string): Answer {
  return {
    chunks: 5,
    intervalMs: 0,
    firstTokenMs: 0,
    marker,
    text: null,
    reasoning: null,
    toolCalls: 'auto',
    finishReason: 'stop',
    textInFinish: false,
    roleChunk: true,
    leak: false,
    usage: null,
    usageIn: 'ownChunk',
    usageUnasked: false,
    doneLine: true,
  }
}

export interface ChatRequest {
  readonly model: string
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly messages: readonly { readonly role: string; readonly text: string }[]
  readonly maxTokens: number | null
  readonly json: boolean
  readonly tool: string | null
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** Reads what the answer depends on; null when the body is no chat request. */
export function readChatRequest(body: unknown): ChatRequest | null {
  const fields = record(body)
  if (typeof fields.model !== 'string' || !Array.isArray(fields.messages)) return null
  const messages = fields.messages.map((entry: unknown) => {
    const { role, content } = record(entry)
    return { role: String(role), text: typeof content === 'string' ? content : JSON.stringify(content ?? null) }
  })
  const maxTokens = fields.max_tokens ?? fields.max_completion_tokens
  const tools = Array.isArray(fields.tools) ? fields.tools : []
  const name = record(record(tools[0]).function).name
  const answersTool = messages.at(-1)?.role === 'tool' || fields.tool_choice === 'none'
  return {
    model: fields.model,
    stream: fields.stream === true,
    includeUsage: record(fields.stream_options).include_usage === true,
    messages,
    maxTokens: typeof maxTokens === 'number' ? maxTokens : null,
    json: String(record(fields.response_format).type ?? '').startsWith('json'),
    tool: typeof name === 'string' && !answersTool ? name : null,
  }
}

/** What one request is answered: the same for a stream and for one body. */
export interface Reply {
  readonly reasoning: string | null
  readonly pieces: readonly string[]
  readonly toolCall: { readonly id: string; readonly name: string; readonly argumentPieces: readonly string[] } | null
  readonly finishReason: string
  readonly usage: Readonly<Record<string, unknown>>
}

export function composeReply(answer: Answer, request: ChatRequest): Reply {
  const toolCall =
    request.tool !== null && answer.toolCalls === 'auto'
      ? { id: 'call_fake_1', name: request.tool, argumentPieces: ['{"fake"', ': true}'] }
      : null
  const all = toolCall === null ? contentPieces(answer, request) : []
  const cut = request.maxTokens !== null && request.maxTokens < all.length
  const pieces = cut ? all.slice(0, request.maxTokens ?? 0) : all
  const promptTokens = request.messages.reduce((sum, { text }) => sum + words(text) + 4, 0)
  const completionTokens = Math.max(1, pieces.length + (toolCall?.argumentPieces.length ?? 0))
  return {
    reasoning: answer.reasoning,
    pieces,
    toolCall,
    finishReason: toolCall !== null ? 'tool_calls' : cut ? 'length' : answer.finishReason,
    usage: answer.usage ?? {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    },
  }
}

export function words(text: string): number {
  return text.split(/\s+/).filter((word) => word !== '').length
}

function contentPieces(answer: Answer, request: ChatRequest): readonly string[] {
  const lastUser = request.messages.findLast(({ role }) => role === 'user')?.text ?? ''
  const text = request.json ? JSON.stringify({ echo: lastUser }) : answer.text
  if (text === null) return Array.from({ length: answer.chunks }, (_, at) => `${answer.marker}${at} `)
  const size = Math.max(1, Math.ceil(text.length / Math.max(1, answer.chunks)))
  return Array.from({ length: Math.ceil(text.length / size) }, (_, at) => text.slice(at * size, (at + 1) * size))
}
