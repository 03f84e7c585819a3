import { brand } from '../../brand.ts'
import type { ProblemCode } from '../../errors.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { FinishedSpan, SpanAttribute, SpanExporter } from './trace-export.ts'

/** Names as OpenTelemetry's semantic conventions have them (§18). Never a prompt, an answer or an id of a node. */
const attributeOf = (key: string, value: string | number | readonly string[]): SpanAttribute => ({ key, value })

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
  call(model: string): Span {
    const attributes = [
      attributeOf('gen_ai.operation.name', 'chat'),
      attributeOf('gen_ai.provider.name', brand),
      attributeOf('gen_ai.request.model', model),
    ]
    return this.child(`chat ${model}`, kinds.client, attributes)
  }

  /** Under which the sub-calls of a mixture stand. */
  mixture(): Span {
    return this.child(`${brand}.mixture`, kinds.internal, [])
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

export interface Tracing {
  /** The SERVER span of a request. null: its caller has decided not to record this trace. */
  request(method: string, route: string, traceparent: string | null): Span | null
  /** Sends what is left, for a bounded time. */
  stop(): Promise<void>
}

export function createTracing(exporter: SpanExporter): Tracing {
  return {
    request: (method, route, traceparent) => {
      const [, traceId, parentId, flags] = traceparentForm.exec(traceparent ?? '') ?? []
      if (flags !== undefined && (Number.parseInt(flags, 16) & sampledFlag) === 0) return null
      return new Span(exporter, {
        traceId: traceId ?? randomHex(16),
        parentId: parentId ?? null,
        name: `${method} ${route}`,
        kind: kinds.server,
        attributes: [attributeOf('http.request.method', method), attributeOf('http.route', route)],
      })
    },
    stop: () => exporter.stop(),
  }
}
