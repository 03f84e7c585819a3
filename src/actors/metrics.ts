import { Counter, Gauge, Registry } from 'prom-client'
import { version } from '../../package.json'
import { brand, metricPrefix } from '../brand.ts'
import type { NodeState } from '../machines/routing.ts'
import type { DeliveryVerdict } from '../machines/webhook-delivery.ts'
import { Histogram, type Series } from './histogram.ts'
import type { LedgerState } from './ledger.ts'
import { registerProcessMetrics } from './process-metrics.ts'

/** One finished request of the chat endpoint, refusals included. */
export interface ChatSample {
  /** 499 for a client that left; for a stream that failed after its headers, the status of its error event. */
  readonly status: number
  readonly durationS: number
  /** null: no content was sent. */
  readonly ttftS: number | null
  readonly promptTokens: number
  readonly completionTokens: number
  /** The public id of a model that was found; null for a request refused before. Never a caller's own text. */
  readonly model: string | null
  readonly stream: boolean
  /** Of a refusal or failure: one of our own codes. */
  readonly code: string | null
}

/** One sub-call of a mixture: a normal call for its model, no request of its own. */
export type SubCallSample = Pick<ChatSample, 'durationS' | 'ttftS' | 'promptTokens' | 'completionTokens' | 'model'>

/** Sums since the start of one model's series; the arrays are counts by bucket, not cumulated. */
export interface ModelTotals {
  readonly requests: number
  readonly ttft: Float64Array
  readonly perToken: Float64Array
  readonly tokensIn: number
  readonly tokensOut: number
}

/** What `/metrics` shows of chat, as numbers. */
export interface ChatTotals {
  readonly requests: number
  /** By our own code. */
  readonly errors: Readonly<Record<string, number>>
  readonly upstreamFailures: Readonly<Record<string, number>>
  readonly mixtures: readonly { readonly strategy: string; readonly outcome: string; readonly count: number }[]
  readonly models: ReadonlyMap<string, ModelTotals>
  readonly inFlight: number
  readonly queued: number
}

/** What is read when somebody scrapes. */
export interface MetricSources {
  nodes(): Readonly<Partial<Record<NodeState, number>>>
  inFlight(): number
  queued(): number
  receiptsWritten(): number
  receiptsDropped(): number
  jobs(): Promise<Readonly<Record<string, number>>>
  jobsRunning(): number
  jobClaims(): number
  ledger(): LedgerState
  /** Of nodes that dialled in at this gateway. */
  tunnels(): { readonly tunnels: number; readonly streams: number }
  /** Hellos that were refused, by a code of ours. */
  hellosRefused(): ReadonlyMap<string, number>
  accessEventsWritten(): number
  accessEventsRefused(): number
  spansDropped(): number
  payoutBatches(): Promise<Readonly<Record<string, number>>>
}

export interface Metrics {
  /** About 0.2 µs: one per chat request. */
  chat(sample: ChatSample): void
  /** A finished request of any other route; `route` is the template. */
  http(route: string, method: string, status: number, durationS: number): void
  upstreamFailure(code: string): void
  subCall(sample: SubCallSample): void
  /** A finished mixture; both are names of ours. */
  mixture(strategy: string, outcome: string): void
  /** An attempt to deliver a webhook ended in this state. */
  webhookAttempt(result: DeliveryVerdict['status']): void
  /** Registers sources as the actors that own them start. */
  observe(sources: Partial<MetricSources>): void
  /** The same numbers as `text()`. */
  totals(): Promise<ChatTotals>
  /** Prometheus text format. */
  text(): Promise<string>
  readonly contentType: string
}

export const chatRoute = `/v1/api/chat/completions`
/** A series of each, also while there is none: an alert needs something to compare. */
const openJobStatuses = ['queued', 'dispatched', 'running'] as const
/** Likewise: the first failure is an increase as well. */
const deliveryResults: readonly DeliveryVerdict['status'][] = ['delivered', 'retry_scheduled', 'failed', 'disabled']
const otherLabel = 'other'
/** Series of distinct models; the rest is counted as `other`. */
const modelLabelsMax = 1_000
/** Series of distinct upstream failure codes, likewise. */
const failureLabelsMax = 64
const statusMax = 600

// Buckets of the OpenTelemetry semantic conventions for generative AI (docs/gen-ai/gen-ai-metrics.md).
const tokenBuckets = Array.from({ length: 14 }, (_, i) => 4 ** i)
const durationBuckets = Array.from({ length: 14 }, (_, i) => 2 ** i / 100)
export const ttftBuckets = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
export const perTokenBuckets = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5]
const httpBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

interface ModelSeries {
  readonly duration: Series
  readonly ttft: Series
  readonly perToken: Series
  readonly input: Series
  readonly output: Series
}

interface ModelTable {
  readonly of: (model: string) => ModelSeries
  readonly all: ReadonlyMap<string, ModelSeries>
}

/** Series of a model, made at its first request. */
function modelSeries(registry: Registry): ModelTable {
  const usage = new Histogram('gen_ai_client_token_usage', 'Tokens of chat requests', tokenBuckets, registry)
  const duration = new Histogram(
    'gen_ai_client_operation_duration_seconds',
    'Chat requests from start to last byte',
    durationBuckets,
    registry,
  )
  const ttft = new Histogram(
    'gen_ai_server_time_to_first_token_seconds',
    'Chat requests from start to first content',
    ttftBuckets,
    registry,
  )
  const perToken = new Histogram(
    'gen_ai_server_time_per_output_token_seconds',
    'Streams from first content to last byte, per token after the first',
    perTokenBuckets,
    registry,
  )
  const made = new Map<string, ModelSeries>()
  const of = (model: string) => {
    const known = made.get(model)
    if (known) return known
    if (made.size >= modelLabelsMax && model !== otherLabel) return made.get(otherLabel) ?? make(otherLabel)
    return make(model)
  }
  return { of, all: made }
  function make(model: string): ModelSeries {
    const labels = { gen_ai_operation_name: 'chat', gen_ai_provider_name: brand, gen_ai_request_model: model }
    const series = {
      duration: duration.series(labels),
      ttft: ttft.series(labels),
      perToken: perToken.series(labels),
      input: usage.series({ ...labels, gen_ai_token_type: 'input' }),
      output: usage.series({ ...labels, gen_ai_token_type: 'output' }),
    }
    made.set(model, series)
    return series
  }
}

function gauges(registry: Registry, sources: () => Partial<MetricSources>): void {
  const registers = [registry]
  new Gauge({
    name: `${metricPrefix}nodes`,
    help: 'Nodes by state',
    labelNames: ['state'],
    registers,
    collect() {
      this.reset()
      for (const [state, count] of Object.entries(sources().nodes?.() ?? {})) this.set({ state }, count)
    },
  })
  const reading = (name: string, help: string, read: () => number | undefined) =>
    new Gauge({
      name: `${metricPrefix}${name}`,
      help,
      registers,
      collect() {
        this.set(read() ?? 0)
      },
    })
  /** By status, as the database has them: a scrape must not fail because it is away. */
  const counted = (
    name: string,
    help: string,
    read: () => Promise<Readonly<Record<string, number>>> | undefined,
    always: readonly string[] = [],
  ) =>
    new Gauge({
      name: `${metricPrefix}${name}`,
      help,
      labelNames: ['status'],
      registers,
      async collect() {
        const counts = await (read() ?? Promise.resolve(null)).catch(() => null)
        this.reset()
        if (counts === null) return
        for (const status of always) this.set({ status }, counts[status] ?? 0)
        for (const [status, count] of Object.entries(counts)) this.set({ status }, count)
      },
    })
  counted(
    'jobs',
    'Private jobs that have not ended, by status, as the database has them',
    () => sources().jobs?.(),
    openJobStatuses,
  )
  counted('payout_batches', 'Payout batches by status, as the database has them', () => sources().payoutBatches?.())
  reading('jobs_attended', 'Private jobs that this gateway holds a lease of', () => sources().jobsRunning?.())
  reading('requests_in_flight', 'Calls that occupy a slot of a node', () => sources().inFlight?.())
  reading('requests_queued', 'Requests that wait for a free slot', () => sources().queued?.())
  reading('tunnels', 'Tunnels of nodes that dialled in here', () => sources().tunnels?.().tunnels)
  reading('tunnel_streams', 'Requests under way in those tunnels', () => sources().tunnels?.().streams)
  new Counter({
    name: `${metricPrefix}tunnel_hellos_refused_total`,
    help: 'Attempts to open a tunnel that were refused',
    labelNames: ['code'],
    registers,
    collect() {
      this.reset()
      for (const [code, count] of sources().hellosRefused?.() ?? []) this.inc({ code }, count)
    },
  })
  const total = (name: string, help: string, read: () => number | undefined) =>
    new Counter({
      name: `${metricPrefix}${name}`,
      help,
      registers,
      collect() {
        this.reset()
        this.inc(read() ?? 0)
      },
    })
  total('job_claims_total', 'Looks for due private jobs, each one statement', () => sources().jobClaims?.())
  total('receipts_written_total', 'Receipts stored', () => sources().receiptsWritten?.())
  total('audit_access_events_written_total', 'Access events stored', () => sources().accessEventsWritten?.())
  total('audit_access_events_refused_total', 'Access events never stored', () => sources().accessEventsRefused?.())
  total('receipts_dropped_total', 'Receipts lost because the database was away', () => sources().receiptsDropped?.())
  const ledger = () => sources().ledger?.()
  reading('ledger_reserved_wei', 'Set aside for work that runs, all customers', () =>
    Number(ledger()?.reservedWei ?? 0n),
  )
  reading('ledger_books_broken_rules', 'Rules that the books break, of the last proof', () => ledger()?.brokenRules)
  reading('ledger_waiting', 'Reserves and settlements that wait for the database', () => ledger()?.waiting)
  total('ledger_requests_total', 'Reserves and settlements', () => ledger()?.requests)
  total('ledger_commits_total', 'Commits that they took together', () => ledger()?.groups)
  total('ledger_stale_total', 'Reservations that nobody ended', () => ledger()?.stale)
  total('trace_spans_dropped_total', 'Spans that no collector took', () => sources().spansDropped?.())
}

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

const totalsOf = ({ duration, ttft, perToken, input, output }: ModelSeries): ModelTotals => ({
  requests: duration.count,
  ttft: ttft.counts(),
  perToken: perToken.counts(),
  tokensIn: input.sum,
  tokensOut: output.sum,
})

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

/** Metrics of decisions §18. No label carries a customer, a key, a node or anything a caller can make up. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const current: Partial<MetricSources> = {}
  const requests = new Counter({
    name: `${metricPrefix}http_requests_total`,
    help: 'Finished requests',
    labelNames: ['route', 'method', 'status'] as const,
    registers,
  })
  const countChat = chatRequests(requests)
  const httpDuration = new Histogram(
    `${metricPrefix}http_request_duration_seconds`,
    'Requests from start to last byte',
    httpBuckets,
    registry,
  )
  const chatDuration = httpDuration.series({ route: chatRoute, method: 'POST' })
  const routeDurations = new Map<string, Series>()
  const webhookAttempts = new Counter({
    name: `${metricPrefix}webhook_attempts_total`,
    help: 'Attempts to deliver a webhook, by the state they led to',
    labelNames: ['result'] as const,
    registers,
  })
  for (const result of deliveryResults) webhookAttempts.inc({ result }, 0)
  const failures = codeCounter('upstream_failures_total', 'Calls to nodes that failed', registry)
  const errors = codeCounter('chat_errors_total', 'Chat requests that were refused or failed', registry)
  const mixtures = new Counter({
    name: `${metricPrefix}mixture_total`,
    help: 'Mixtures by strategy and outcome',
    labelNames: ['strategy', 'outcome'] as const,
    registers,
  })
  const models = modelSeries(registry)
  const observeModel = (sample: SubCallSample) => {
    if (sample.model === null) return
    const series = models.of(sample.model)
    series.duration.observe(sample.durationS)
    if (sample.ttftS !== null) series.ttft.observe(sample.ttftS)
    if (sample.promptTokens > 0) series.input.observe(sample.promptTokens)
    if (sample.completionTokens > 0) series.output.observe(sample.completionTokens)
  }
  new Gauge({
    name: `${metricPrefix}build_info`,
    help: 'Always 1; the version is in the label',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1)
  gauges(registry, () => current)
  registerProcessMetrics(registry)
  return {
    chat(sample) {
      countChat(sample.status)
      if (sample.code !== null) errors.inc(sample.code)
      chatDuration.observe(sample.durationS)
      observeModel(sample)
      const { model, stream, ttftS, completionTokens, durationS } = sample
      if (model === null || !stream || ttftS === null || completionTokens < 2) return
      models.of(model).perToken.observe((durationS - ttftS) / (completionTokens - 1))
    },
    subCall: observeModel,
    mixture: (strategy, outcome) => mixtures.inc({ strategy, outcome }),
    http(route, method, status, durationS) {
      requests.inc({ route, method, status })
      const key = `${method} ${route}`
      let series = routeDurations.get(key)
      if (!series) {
        series = httpDuration.series({ route, method })
        routeDurations.set(key, series)
      }
      series.observe(durationS)
    },
    webhookAttempt: (result) => webhookAttempts.inc({ result }),
    upstreamFailure: failures.inc,
    totals: async () => ({
      requests: chatDuration.count,
      errors: await errors.totals(),
      upstreamFailures: await failures.totals(),
      mixtures: (await mixtures.get()).values.map(({ labels, value: count }) => ({
        strategy: String(labels.strategy),
        outcome: String(labels.outcome),
        count,
      })),
      models: new Map([...models.all].map(([model, series]) => [model, totalsOf(series)])),
      inFlight: current.inFlight?.() ?? 0,
      queued: current.queued?.() ?? 0,
    }),
    observe: (sources) => void Object.assign(current, sources),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
