import { waitFor } from '../gateways/gateway.ts'

/** One span as a collector reads it. */
export interface SeenSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startMs: number
  readonly endMs: number
  readonly status: number
  readonly attributes: Readonly<Record<string, SeenValue>>
  /** By attribute: `string`, `int`, `double`, `boolean` or `string[]`, as the bytes say. */
  readonly types: Readonly<Record<string, string>>
}

export interface Collector {
  readonly url: string
  readonly spans: readonly SeenSpan[]
  /** Every body, as it came. */
  readonly bodies: readonly string[]
  readonly headers: readonly Readonly<Record<string, string>>[]
  /** Answers with these statuses, one per request; then 200. */
  fail(...statuses: readonly number[]): void
  /** Resolves with all spans of a trace, once there are so many. */
  trace(traceId: string, count: number): Promise<readonly SeenSpan[]>
  clear(): void
  stop(): void
}

type SeenValue = string | number | boolean | readonly string[]

function typeOf(value: OtlpValue): string {
  if (value.arrayValue !== undefined) return 'string[]'
  if (value.intValue !== undefined) return 'int'
  if (value.doubleValue !== undefined) return 'double'
  return value.boolValue === undefined ? 'string' : 'boolean'
}

interface OtlpValue {
  readonly stringValue?: string
  readonly intValue?: string
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: readonly OtlpValue[] }
}
interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly { readonly key: string; readonly value: OtlpValue }[]
  readonly status: { readonly code?: number }
}
interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

function plain(value: OtlpValue): SeenValue {
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(({ stringValue = '' }) => stringValue)
  if (value.intValue !== undefined) return Number(value.intValue)
  return value.doubleValue ?? value.boolValue ?? value.stringValue ?? ''
}

function seen(span: OtlpSpan): SeenSpan {
  const { attributes, startTimeUnixNano, endTimeUnixNano, status, ...rest } = span
  return {
    ...rest,
    startMs: Number(startTimeUnixNano) / 1e6,
    endMs: Number(endTimeUnixNano) / 1e6,
    status: status.code ?? 0,
    attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, plain(value)])),
    types: Object.fromEntries(attributes.map(({ key, value }) => [key, typeOf(value)])),
  }
}

/** The OpenTelemetry collector of a test: OTLP over HTTP, JSON. */
export function startCollector(): Collector {
  const spans: SeenSpan[] = []
  const bodies: string[] = []
  const headers: Record<string, string>[] = []
  let failures: number[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const text = await request.text()
      if (new URL(request.url).pathname !== '/v1/traces') return new Response(null, { status: 404 })
      bodies.push(text)
      headers.push(Object.fromEntries(request.headers))
      const status = failures.shift()
      if (status !== undefined) return new Response('no', { status })
      for (const { scopeSpans } of (JSON.parse(text) as OtlpBody).resourceSpans) {
        spans.push(...scopeSpans.flatMap((scope) => scope.spans.map(seen)))
      }
      return Response.json({})
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    spans,
    bodies,
    headers,
    fail: (...statuses) => {
      failures = [...statuses]
    },
    trace: (traceId, count) =>
      waitFor(`${count} spans`, () => {
        const found = spans.filter((span) => span.traceId === traceId)
        return found.length >= count ? found : null
      }),
    clear: () => {
      spans.length = 0
    },
    stop: () => void server.stop(true),
  }
}
