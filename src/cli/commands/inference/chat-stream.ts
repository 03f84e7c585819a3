import { brand, headers } from '../../../brand.ts'
import { SseSplitter } from '../../../protocol/chat/sse.ts'
import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { CliFailure, GatewayRefusal } from '../../frame/failure.ts'
import { type GatewayClient, refusalOf } from '../../frame/gateway-client.ts'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ChatWish {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly maxTokens: number | null
  readonly temperature: number | null
  readonly nodeId: string | null
}

interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

/** One answer as it was received. Times are those of this side, ms. */
export interface Turn {
  content: string
  reasoning: string
  finishReason: string | null
  usage: Usage | null
  /** The `svc` object of the terminal chunk. */
  metadata: Readonly<Record<string, unknown>> | null
  requestId: string | null
  /** Time to the first content, or null before it. */
  ttftMs: number | null
  totalMs: number
  stopped: boolean
}

export type PieceKind = 'content' | 'reasoning'

/**
 * The gateway sends a comment every 10 s (SVC_KEEP_ALIVE_MS, at most 30 s), so a longer silence means that it is gone.
 */
const silenceMsMax = 90_000

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: unknown; readonly reasoning?: unknown; readonly reasoning_content?: unknown }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: Usage
  readonly error?: object
}

function requestBody(wish: ChatWish): object {
  return {
    model: wish.model,
    messages: wish.messages,
    stream: true,
    ...(wish.maxTokens === null ? {} : { max_tokens: wish.maxTokens }),
    ...(wish.temperature === null ? {} : { temperature: wish.temperature }),
    ...(wish.nodeId === null ? {} : { [brand]: { node_id: wish.nodeId } }),
  }
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** Adds the events of one stream to `turn`. Throws `GatewayRefusal` for an error event. */
class Reader {
  done = false
  constructor(
    private readonly turn: Turn,
    private readonly startedMs: number,
    private readonly piece: (kind: PieceKind, text: string) => void,
  ) {}

  event(payload: string): void {
    if (payload === '[DONE]') {
      this.done = true
      return
    }
    const chunk = foreignJson(payload) as (Chunk & Readonly<Record<string, unknown>>) | undefined
    if (chunk === undefined) throw new CliFailure('The gateway sent an event that is not JSON.')
    if (chunk.error !== undefined) throw this.refused(chunk.error)
    for (const { delta, finish_reason } of chunk.choices ?? []) {
      this.take('reasoning', textOf(delta?.reasoning_content) || textOf(delta?.reasoning))
      this.take('content', textOf(delta?.content))
      if (typeof finish_reason === 'string') this.turn.finishReason = finish_reason
    }
    if (chunk.usage !== undefined) this.turn.usage = chunk.usage
    const metadata = chunk[brand]
    if (typeof metadata === 'object' && metadata !== null) this.turn.metadata = metadata as Turn['metadata']
  }

  private take(kind: PieceKind, text: string): void {
    if (text === '') return
    this.turn.ttftMs ??= performance.now() - this.startedMs
    this.turn[kind] += text
    this.piece(kind, text)
  }

  private refused(error: object): GatewayRefusal {
    const service = (error as Readonly<Record<string, unknown>>)[brand] as { readonly status?: unknown } | undefined
    const status = typeof service?.status === 'number' ? service.status : 502
    return new GatewayRefusal(refusalOf(status, { error }, new Headers()))
  }
}

/**
 * One answer, piece by piece. `stop` ends it, and with it the node's work; what came until then is returned with
 * `stopped`. Rejects with `CliFailure`.
 */
export async function streamChat(
  gateway: GatewayClient,
  wish: ChatWish,
  stop: AbortSignal,
  piece: (kind: PieceKind, text: string) => void,
): Promise<Turn> {
  const startedMs = performance.now()
  const turn: Turn = {
    content: '',
    reasoning: '',
    finishReason: null,
    usage: null,
    metadata: null,
    requestId: null,
    ttftMs: null,
    totalMs: 0,
    stopped: false,
  }
  const reader = new Reader(turn, startedMs, piece)
  const silence = new AbortController()
  try {
    await receive(gateway, wish, AbortSignal.any([stop, silence.signal]), silence, turn, reader)
  } catch (error) {
    if (!stop.aborted) throw silence.signal.aborted ? silent() : failureOf(error)
    turn.stopped = true
  }
  turn.totalMs = performance.now() - startedMs
  if (!reader.done && !turn.stopped) throw new CliFailure('The stream ended before the answer did.')
  return turn
}

async function receive(
  gateway: GatewayClient,
  wish: ChatWish,
  signal: AbortSignal,
  silence: AbortController,
  turn: Turn,
  reader: Reader,
): Promise<void> {
  const splitter = new SseSplitter({ data: (payload) => reader.event(payload), errorLine: () => {} })
  let timer = setTimeout(() => silence.abort(), silenceMsMax)
  try {
    const response = await gateway.chat(requestBody(wish), signal)
    turn.requestId = response.headers.get(headers.requestId)
    if (response.body === null) return
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), silenceMsMax)
      if (!splitter.push(bytes)) throw new CliFailure('The gateway sent an event that is too large.')
    }
    splitter.end()
  } finally {
    clearTimeout(timer)
  }
}

const silent = () => new CliFailure(`The gateway was silent for ${silenceMsMax / 1_000} s.`)

function failureOf(error: unknown): CliFailure {
  return error instanceof CliFailure ? error : new CliFailure('The connection to the gateway was lost.')
}

/** Below this time the speed says more about the network than about the model. */
const rateSpanMsMin = 50

/** Tokens per second after the first one, or null if there are too few to tell. */
export function tokensPerSecond(turn: Turn): number | null {
  const tokens = turn.usage?.completion_tokens ?? 0
  const spanMs = turn.totalMs - (turn.ttftMs ?? turn.totalMs)
  return tokens < 2 || spanMs < rateSpanMsMin ? null : ((tokens - 1) * 1_000) / spanMs
}
