import { Counter, Gauge, Registry } from 'prom-client'
import { version } from '../../../package.json'
import { metricPrefix } from '../../brand.ts'
import type { Wanted } from '../../machines/alerts/expression.ts'
import type { DeliveryVerdict } from '../../machines/charts/webhook-delivery.ts'
import { type OwnReadings, readWanted } from './alert-readings.ts'
import { Histogram, type Series } from './histogram.ts'
import { createModelMetrics, type ModelCallSample, type ModelTotals, otherLabel } from './model-metrics.ts'
import { registerProcessMetrics } from './process-metrics.ts'
import { type MetricSources, registerScraped } from './scraped-metrics.ts'

/** One finished request of an inference operation, refusals included. */
export interface ChatSample extends ModelCallSample {
  /** 499 for a client that left; for a stream that failed after its headers, the status of its error event. */
  readonly status: number
  readonly stream: boolean
  /** Of a refusal or failure: one of our own codes. */
  readonly code: string | null
}

/** What `/metrics` shows of chat, as numbers. */
export interface ChatTotals {
  /** Of all inference routes: each finished request, also of somebody unknown, who leaves no row. */
  readonly requests: number
  /** By our own code. */
  readonly errors: Readonly<Record<string, number>>
  readonly upstreamFailures: Readonly<Record<string, number>>
  readonly mixtures: readonly { readonly strategy: string; readonly outcome: string; readonly count: number }[]
  readonly models: ReadonlyMap<string, ModelTotals>
  readonly inFlight: number
  readonly queued: number
}

export interface Metrics {
  /** What takes the requests of one operation, made once for its route. Of chat about 0.2 µs. */
  operation(route: string): (sample: ChatSample) => void
  /** A finished request of any other route; `route` is the template. */
  http(route: string, method: string, status: number, durationS: number): void
  upstreamFailure(code: string): void
  subCall(sample: ModelCallSample): void
  /** A finished mixture; both are names of ours. */
  mixture(strategy: string, outcome: string): void
  /** An attempt to deliver a webhook ended in this state. */
  webhookAttempt(result: DeliveryVerdict['status']): void
  /** Registers sources as the actors that own them start. */
  observe(sources: Partial<MetricSources>): void
  /** The same numbers as `text()`. */
  totals(): Promise<ChatTotals>
  /** Of the same registry, what alerts look at. */
  readings(wanted: readonly Wanted[]): Promise<OwnReadings>
  /** Prometheus text format. */
  text(): Promise<string>
  readonly contentType: string
}

export const chatRoute = `/v1/api/chat/completions`
/** A series of each from the start: the first failure is an increase as well. */
const deliveryResults: readonly DeliveryVerdict['status'][] = ['delivered', 'retry_scheduled', 'failed', 'disabled']
/** Series of distinct codes; the rest is counted as `other`. */
const failureLabelsMax = 64
const statusMax = 600

const httpBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/** A counter with one label whose values stand in code of ours; the set is bounded all the same. */
function codeCounter(name: string, help: string, registry: Registry) {
  const counter = new Counter({ name: metricPrefix + name, help, labelNames: ['code'] as const, registers: [registry] })
  const known = new Set<string>()
  return {
    inc: (code: string) => {
      if (known.size < failureLabelsMax) known.add(code)
      counter.inc({ code: known.has(code) ? code : otherLabel })
    },
    totals: async () =>
      Object.fromEntries((await counter.get()).values.map(({ labels, value }) => [String(labels.code), value])),
  }
}

/** Counts per status of the chat route, handed to the registry when scraped. */
function chatRequests(requests: Counter<'route' | 'method' | 'status'>): (status: number) => void {
  const counts = new Float64Array(statusMax)
  const flushed = new Float64Array(statusMax)
  const collector = requests as unknown as { collect: () => void }
  collector.collect = () => {
    for (let status = 0; status < statusMax; status++) {
      const fresh = (counts[status] ?? 0) - (flushed[status] ?? 0)
      if (fresh === 0) continue
      requests.inc({ route: chatRoute, method: 'POST', status }, fresh)
      flushed[status] = counts[status] ?? 0
    }
  }
  return (status) => {
    counts[status] = (counts[status] ?? 0) + 1
  }
}

/** All routes, by template; chat has its own way, which allocates nothing. */
function createHttpMetrics(registry: Registry) {
  const requests = new Counter({
    name: `${metricPrefix}http_requests_total`,
    help: 'Finished requests',
    labelNames: ['route', 'method', 'status'] as const,
    registers: [registry],
  })
  const name = `${metricPrefix}http_request_duration_seconds`
  const durations = new Histogram(name, 'Requests from start to last byte', httpBuckets, registry)
  const routeDurations = new Map<string, Series>()
  const countChat = chatRequests(requests)
  const chatDuration = durations.series({ route: chatRoute, method: 'POST' })
  return {
    chat({ status, durationS }: ChatSample): void {
      countChat(status)
      chatDuration.observe(durationS)
    },
    record(route: string, method: string, status: number, durationS: number): void {
      requests.inc({ route, method, status })
      const key = `${method} ${route}`
      let series = routeDurations.get(key)
      if (!series) {
        series = durations.series({ route, method })
        routeDurations.set(key, series)
      }
      series.observe(durationS)
    },
  }
}

function createMixtureMetrics(registry: Registry) {
  const mixtures = new Counter({
    name: `${metricPrefix}mixture_total`,
    help: 'Mixtures by strategy and outcome',
    labelNames: ['strategy', 'outcome'] as const,
    registers: [registry],
  })
  return {
    record: (strategy: string, outcome: string) => mixtures.inc({ strategy, outcome }),
    totals: async () =>
      (await mixtures.get()).values.map(({ labels, value: count }) => ({
        strategy: String(labels.strategy),
        outcome: String(labels.outcome),
        count,
      })),
  }
}

function createWebhookMetrics(registry: Registry): Metrics['webhookAttempt'] {
  const attempts = new Counter({
    name: `${metricPrefix}webhook_attempts_total`,
    help: 'Attempts to deliver a webhook, by the state they led to',
    labelNames: ['result'] as const,
    registers: [registry],
  })
  for (const result of deliveryResults) attempts.inc({ result }, 0)
  return (result) => attempts.inc({ result })
}

function registerBuildInfo(registry: Registry): void {
  const name = `${metricPrefix}build_info`
  const help = 'Always 1; the version is in the label'
  new Gauge({ name, help, labelNames: ['version'], registers: [registry] }).set({ version }, 1)
}

/** Metrics of §18. No label carries a customer, a key, an address or anything a caller can make up. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const current: Partial<MetricSources> = {}
  const http = createHttpMetrics(registry)
  const webhookAttempt = createWebhookMetrics(registry)
  const failures = codeCounter('upstream_failures_total', 'Calls to nodes that failed', registry)
  const errors = codeCounter('chat_errors_total', 'Chat requests that were refused or failed', registry)
  const mixtures = createMixtureMetrics(registry)
  let inferences = 0
  const models = createModelMetrics(registry, (nodeId) => current.nodeName?.(nodeId) ?? null)
  registerBuildInfo(registry)
  registerScraped(registry, current)
  registerProcessMetrics(registry)
  return {
    operation: (route) => {
      const finished =
        route === chatRoute
          ? http.chat
          : ({ status, durationS }: ChatSample) => http.record(route, 'POST', status, durationS)
      return (sample) => {
        inferences++
        finished(sample)
        if (sample.code !== null) errors.inc(sample.code)
        models.call(sample)
        if (sample.stream) models.spoke(sample)
      }
    },
    subCall: models.call,
    mixture: mixtures.record,
    http: http.record,
    webhookAttempt,
    upstreamFailure: failures.inc,
    totals: async () => ({
      requests: inferences,
      errors: await errors.totals(),
      upstreamFailures: await failures.totals(),
      mixtures: await mixtures.totals(),
      models: models.totals(),
      inFlight: current.inFlight?.() ?? 0,
      queued: current.queued?.() ?? 0,
    }),
    readings: (wanted) => readWanted(registry, wanted),
    observe: (sources) => void Object.assign(current, sources),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
