import { version } from '../../../package.json'
import { backoffMs } from '../../backoff.ts'
import { product } from '../../brand.ts'
import { Alarm, type Clock, systemClock } from '../../clock.ts'
import { descriptors } from '../../host/descriptors.ts'
import { failureName, type Log } from '../../log.ts'

export interface SpanAttribute {
  readonly key: string
  readonly value: string | number | boolean | readonly string[]
  /** A number of the type `double`, whole or not. */
  readonly double?: true
}

export interface FinishedSpan {
  /** 32 and 16 hexadecimal digits. */
  readonly traceId: string
  readonly spanId: string
  readonly parentId: string | null
  readonly name: string
  /** As OTLP counts them. */
  readonly kind: number
  /** Unix ms with fractions. */
  readonly startedMs: number
  readonly endedMs: number
  readonly attributes: readonly SpanAttribute[]
  readonly isError: boolean
}

export interface SpanExporter {
  /** Never waits, never throws; beyond its bound the queue drops what is new. */
  add(span: FinishedSpan): void
  /** Spans that no collector will see. */
  dropped(): number
  stop(): Promise<void>
}

export interface ExportOptions {
  /** OTEL_EXPORTER_OTLP_ENDPOINT: the base; `/v1/traces` is added. */
  readonly endpoint: string
  /** OTEL_EXPORTER_OTLP_HEADERS: `name=value,…`, values percent-encoded. */
  readonly headers: string | null
  readonly serviceName: string
  readonly log: Log
  readonly clock?: Clock
}

const spansWaitingMax = 4_096
const batchSpansMax = 512
/** After failures the wait grows. */
const sends = { firstMs: 1_000, maxMs: 30_000 }
const sendTimeoutMs = 10_000
/** What a first request of Bun's takes. */
const fetchDescriptors = 4
const stopWaitMs = 2_000
/** What OTLP/HTTP calls retryable; anything else would fail again. */
const retryable: ReadonlySet<number> = new Set([429, 502, 503, 504])
const errorStatus = 2

export function readHeaders(text: string | null): Readonly<Record<string, string>> {
  const pairs = (text ?? '').split(',').map((pair) => pair.split('='))
  return Object.fromEntries(
    pairs
      .filter(([name]) => name !== undefined && name.trim() !== '')
      .map(([name = '', ...value]) => [name.trim().toLowerCase(), decoded(value.join('=').trim())]),
  )
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function otlpValue({ value, double }: SpanAttribute): object {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number') return double === true ? { doubleValue: value } : { intValue: String(value) }
  return { arrayValue: { values: value.map((stringValue) => ({ stringValue })) } }
}

const otlpAttributes = (attributes: readonly SpanAttribute[]) =>
  attributes.map((attribute) => ({ key: attribute.key, value: otlpValue(attribute) }))
const nanoseconds = (ms: number) => String(BigInt(Math.round(ms * 1_000)) * 1_000n)

function otlpSpan(span: FinishedSpan): object {
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    ...(span.parentId === null ? {} : { parentSpanId: span.parentId }),
    name: span.name,
    kind: span.kind,
    startTimeUnixNano: nanoseconds(span.startedMs),
    endTimeUnixNano: nanoseconds(span.endedMs),
    attributes: otlpAttributes(span.attributes),
    status: span.isError ? { code: errorStatus } : {},
  }
}

/**
 * OTLP/HTTP with JSON bodies, which every collector takes. By hand: OpenTelemetry's own exporter brings a dozen packages
 * and a context that follows every promise, for one request every second.
 */
export function createSpanExporter(options: ExportOptions): SpanExporter {
  return new OtlpExporter(options)
}

class OtlpExporter implements SpanExporter {
  private waiting: FinishedSpan[] = []
  private droppedCount = 0
  private readonly alarm: Alarm
  private sending: Promise<void> | null = null
  private failures = 0
  private stopped = false
  private readonly abort = new AbortController()
  private readonly url: string
  private readonly resource: object
  private readonly headers: Readonly<Record<string, string>>

  constructor(private readonly options: ExportOptions) {
    this.alarm = new Alarm(() => this.sendAll(), options.clock ?? systemClock, false)
    this.url = `${options.endpoint.replace(/\/+$/, '')}/v1/traces`
    this.headers = { ...readHeaders(options.headers), 'content-type': 'application/json' }
    const attributes = [
      { key: 'service.name', value: options.serviceName },
      { key: 'service.version', value: version },
      { key: 'service.instance.id', value: crypto.randomUUID() },
    ]
    this.resource = { attributes: otlpAttributes(attributes) }
  }

  add(span: FinishedSpan): void {
    if (this.stopped || this.waiting.length >= spansWaitingMax) this.droppedCount++
    else {
      this.waiting.push(span)
      this.schedule()
    }
  }

  dropped(): number {
    return this.droppedCount
  }

  async stop(): Promise<void> {
    this.stopped = true
    this.alarm.clear()
    const bound = setTimeout(() => this.abort.abort(), stopWaitMs)
    await this.sending
    while (this.waiting.length > 0 && !this.abort.signal.aborted) await this.send()
    clearTimeout(bound)
  }

  private schedule(): void {
    if (!this.alarm.isSet && this.sending === null && !this.stopped) {
      this.alarm.set(backoffMs(sends, this.failures + 1))
    }
  }

  private sendAll(): void {
    this.sending = this.send().finally(() => {
      this.sending = null
      if (this.waiting.length > 0) this.schedule()
    })
  }

  private async send(): Promise<void> {
    const batch = this.waiting.splice(0, batchSpansMax)
    const outcome = await this.post(batch)
    if (outcome === 'sent') this.failures = 0
    else if (outcome === 'later' && !this.stopped) this.giveBack(batch)
    else this.droppedCount += batch.length
    // What is left of a full queue does not wait for its second.
    if (outcome === 'sent' && this.waiting.length >= batchSpansMax && !this.stopped) await this.send()
  }

  private giveBack(batch: readonly FinishedSpan[]): void {
    this.failures++
    const room = spansWaitingMax - this.waiting.length
    this.droppedCount += Math.max(0, batch.length - room)
    this.waiting = [...batch.slice(0, room), ...this.waiting]
  }

  private async post(batch: readonly FinishedSpan[]): Promise<'sent' | 'later' | 'never'> {
    const scopeSpans = [{ scope: { name: product, version }, spans: batch.map(otlpSpan) }]
    try {
      // Bun's first fetch starts a thread, and ends the process where that finds no descriptor (seen on 1.4.5).
      descriptors.lend(fetchDescriptors)
      const response = await fetch(this.url, {
        method: 'POST',
        headers: this.headers,
        body: JSON.stringify({ resourceSpans: [{ resource: this.resource, scopeSpans }] }),
        signal: AbortSignal.any([this.abort.signal, AbortSignal.timeout(sendTimeoutMs)]),
        redirect: 'manual',
      })
      await response.body?.cancel()
      if (response.ok) return 'sent'
      this.options.log.warn('traces_refused', { status: response.status })
      return retryable.has(response.status) ? 'later' : 'never'
    } catch (error) {
      this.options.log.warn('traces_not_sent', { failure: failureName(error) })
      return 'later'
    }
  }
}
