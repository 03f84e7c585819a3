import { brand } from '../../brand.ts'
import type { ProblemCode } from '../../errors.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { FinishedSpan, SpanAttribute, SpanExporter } from './trace-export.ts'

/**
 * Names as OpenTelemetry's semantic conventions have them (§18), and below our own prefix what they do not know. Never a
 * prompt, an answer, an id of an account or an address.
 */
const attributeOf = (key: string, value: SpanAttribute['value']): SpanAttribute => ({ key, value })

const kinds = { internal: 1, server: 2, client: 3 } as const
const errorStatusFrom = 500

/** `00-<trace>-<parent>-<flags>` of W3C Trace Context; later versions may say more behind it. */
const traceparentForm = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/
const sampledFlag = 1

const randomHex = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes)).toHex()
/** Unix ms with fractions. */
const clock = () => performance.timeOrigin + performance.now()

interface SpanStart {
  readonly traceId: string
  readonly parentId: string | null
  readonly name: string
  readonly kind: (typeof kinds)[keyof typeof kinds]
  readonly attributes: readonly SpanAttribute[]
}

/** What a call of a node asks for. `body`: the client's, of which only sampling parameters are read. */
export interface CallStart {
  /** The name of our operation. */
  readonly operation: string
  readonly model: string
  /** Of this call alone, as the node hears it. */
  readonly requestId: string
  /** What an operator calls it; null: nothing, or its address. */
  readonly nodeName: string | null
  readonly body: object
}

/** How a mixture ended. */
export interface MixtureEnding {
  readonly strategy: string
  /** With the aggregator; empty if no sub-call was sent. */
  readonly experts: readonly {
    readonly role: string
    readonly model: string
    readonly weight: number | null
    readonly status: string
  }[]
  /** null: refused before its configuration was read. */
  readonly minExperts: number | null
  readonly degraded: boolean
  readonly outcome: string
}

/** As the conventions call operations; one that they do not know keeps its own name. */
const operationNames: Readonly<Record<string, string>> = {
  messages: 'chat',
  responses: 'chat',
  ollama_chat: 'chat',
  completions: 'text_completion',
  ollama_generate: 'text_completion',
  ollama_embed: 'embeddings',
  ollama_embeddings: 'embeddings',
}

/** Members of a body and the attributes that they become. Stop sequences are a client's own words, and stay out. */
const samplingMembers = [
  ['temperature', 'gen_ai.request.temperature', true],
  ['top_p', 'gen_ai.request.top_p', true],
  ['top_k', 'gen_ai.request.top_k', true],
  ['frequency_penalty', 'gen_ai.request.frequency_penalty', true],
  ['presence_penalty', 'gen_ai.request.presence_penalty', true],
  ['seed', 'gen_ai.request.seed', false],
  ['n', 'gen_ai.request.choice.count', false],
  ['max_tokens', 'gen_ai.request.max_tokens', false],
  ['max_completion_tokens', 'gen_ai.request.max_tokens', false],
  ['dimensions', 'gen_ai.embeddings.dimension.count', false],
] as const

/** Numbers alone: what a client sends elsewise is no sampling parameter. */
function samplingOf(body: object): readonly SpanAttribute[] {
  const given = new Map<string, SpanAttribute>()
  for (const [member, key, double] of samplingMembers) {
    const value = (body as Readonly<Record<string, unknown>>)[member]
    if (typeof value !== 'number' || !(double ? Number.isFinite(value) : Number.isSafeInteger(value))) continue
    given.set(key, double ? { key, value, double } : { key, value })
  }
  return [...given.values()]
}

/** How one call of a node ended. */
export interface CallEnd {
  readonly model: string
  readonly usage: TokenUsage
  readonly finishReasons: readonly string[]
}

/** One span; it is sent when it ends, and ends once. */
export class Span {
  private readonly spanId = randomHex(8)
  private readonly startedMs = clock()
  private ended = false

  constructor(
    private readonly exporter: SpanExporter,
    private readonly start: SpanStart,
  ) {}

  /** CLIENT span of one call of a node. */
  call({ operation, model, requestId, nodeName, body }: CallStart): Span {
    const name = operationNames[operation] ?? operation
    const attributes = [
      attributeOf('gen_ai.operation.name', name),
      attributeOf('gen_ai.provider.name', brand),
      attributeOf('gen_ai.request.model', model),
      ...samplingOf(body),
      attributeOf(`${brand}.request.id`, requestId),
      ...(nodeName === null ? [] : [attributeOf(`${brand}.node.name`, nodeName)]),
    ]
    return this.child(`${name} ${model}`, kinds.client, attributes)
  }

  /** Under which the sub-calls of a mixture stand. */
  mixture(requestId: string): Span {
    return this.child(`${brand}.mixture`, kinds.internal, [attributeOf(`${brand}.request.id`, requestId)])
  }

  endMixture(
    { strategy, experts: calls, minExperts, degraded, outcome }: MixtureEnding,
    code: ProblemCode | null,
  ): void {
    const experts = calls.filter(({ role }) => role === 'expert')
    this.end(code, code !== null, [
      attributeOf(`${brand}.mixture.strategy`, strategy),
      attributeOf(
        `${brand}.mixture.experts`,
        experts.map(({ model }) => model),
      ),
      attributeOf(
        `${brand}.mixture.weights`,
        experts.map(({ weight }) => String(weight)),
      ),
      ...(minExperts === null ? [] : [attributeOf(`${brand}.mixture.min_experts`, minExperts)]),
      attributeOf(`${brand}.mixture.answered`, experts.filter(({ status }) => status === 'ok').length),
      attributeOf(`${brand}.mixture.degraded`, degraded),
      attributeOf(`${brand}.mixture.outcome`, outcome),
    ])
  }

  private child(name: string, kind: SpanStart['kind'], attributes: readonly SpanAttribute[]): Span {
    return new Span(this.exporter, { traceId: this.start.traceId, parentId: this.spanId, name, kind, attributes })
  }

  /** The call was answered, at least in part. */
  endCall({ model, usage, finishReasons }: CallEnd, code: ProblemCode | null): void {
    this.end(code, code !== null, [
      attributeOf('gen_ai.response.model', model),
      attributeOf('gen_ai.usage.input_tokens', usage.prompt_tokens),
      attributeOf('gen_ai.usage.output_tokens', usage.completion_tokens),
      ...(finishReasons.length === 0 ? [] : [attributeOf('gen_ai.response.finish_reasons', finishReasons)]),
    ])
  }

  endRequest(status: number, code: ProblemCode | null): void {
    this.end(code, status >= errorStatusFrom, [attributeOf('http.response.status_code', status)])
  }

  /** `code` null: no failure of what was called. */
  end(code: ProblemCode | null, isError = code !== null, more: readonly SpanAttribute[] = []): void {
    if (this.ended) return
    this.ended = true
    const { attributes, ...start } = this.start
    const error = code === null ? [] : [attributeOf('error.type', code)]
    const finished: FinishedSpan = {
      ...start,
      spanId: this.spanId,
      startedMs: this.startedMs,
      endedMs: clock(),
      attributes: [...attributes, ...more, ...error],
      isError,
    }
    this.exporter.add(finished)
  }
}

/** Of the choices of an answer; only names of ours get this far. */
export function finishReasons(choices: readonly object[] | null): readonly string[] {
  return (choices ?? []).flatMap((choice) => {
    const reason = 'finish_reason' in choice ? choice.finish_reason : null
    return typeof reason === 'string' ? [reason] : []
  })
}

/** A request as it came in. `route`: the path of the operation, of which there may be several. */
export interface RequestStart {
  readonly method: string
  readonly route: string
  readonly url: string
  readonly requestId: string
  readonly traceparent: string | null
}

export interface Tracing {
  /** The SERVER span of a request. null: its caller has decided not to record this trace. */
  request(start: RequestStart): Span | null
  /** Sends what is left, for a bounded time. */
  stop(): Promise<void>
}

export function createTracing(exporter: SpanExporter): Tracing {
  return {
    request: ({ method, route, url, requestId, traceparent }) => {
      const [, traceId, parentId, flags] = traceparentForm.exec(traceparent ?? '') ?? []
      if (flags !== undefined && (Number.parseInt(flags, 16) & sampledFlag) === 0) return null
      const { pathname, protocol } = new URL(url)
      return new Span(exporter, {
        traceId: traceId ?? randomHex(16),
        parentId: parentId ?? null,
        name: `${method} ${route}`,
        kind: kinds.server,
        attributes: [
          attributeOf('http.request.method', method),
          attributeOf('http.route', route),
          attributeOf('url.path', pathname),
          attributeOf('url.scheme', protocol.slice(0, -1)),
          attributeOf(`${brand}.request.id`, requestId),
        ],
      })
    },
    stop: () => exporter.stop(),
  }
}
