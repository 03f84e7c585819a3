import type { Clock } from '../../clock.ts'
import { loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import type { TrafficPoint } from '../../protocol/wire/admin/inspect.ts'
import { isoTime, minuteMs } from '../../time.ts'
import type { ChatTotals } from '../telemetry/metrics.ts'
import { type ModelTotals, perTokenBuckets, ttftBuckets } from '../telemetry/model-metrics.ts'
import { quantile } from './quantile.ts'

export interface TrafficSeries {
  /** Oldest first, at most 15 minutes of them. */
  points(): readonly TrafficPoint[]
  subscribe(listener: (point: TrafficPoint) => void): () => void
  start(): void
  stop(): void
}

const trafficStepMs = 5_000
export const trafficKeptMs = 15 * minuteMs
const pointsMax = trafficKeptMs / trafficStepMs
/** How many models one point lists, the busiest first. The sums contain all models. */
const modelsShownMax = 20

type Counts = Readonly<Record<string, number>>

function rises(now: Counts, before: Counts): Record<string, number> {
  const risen = Object.entries(now).map(([name, value]) => [name, value - (before[name] ?? 0)] as const)
  return Object.fromEntries(risen.filter(([, value]) => value > 0))
}

const minus = (now: Float64Array, before: Float64Array | undefined) =>
  before === undefined ? now : now.map((value, at) => value - (before[at] ?? 0))
const sumOf = (all: readonly Float64Array[], length: number) =>
  Float64Array.from({ length }, (_, at) => all.reduce((sum, counts) => sum + (counts[at] ?? 0), 0))
const inMs = (seconds: number | null) => (seconds === null ? null : Math.round(seconds * 10_000) / 10)

type Buckets = TrafficPoint['models'][number]['ttft_buckets']

/** What lies beyond the last bound counts as that bound. */
function bucketsOf(counts: Float64Array, bounds: readonly number[]): Buckets {
  const msAt = (at: number) => (at < 0 ? 0 : (bounds[Math.min(at, bounds.length - 1)] ?? 0) * 1_000)
  return [...counts].flatMap((count, at) => (count === 0 ? [] : { above_ms: msAt(at - 1), to_ms: msAt(at), count }))
}

interface ModelRise extends ModelTotals {
  readonly model: string
}

function modelRises(now: ChatTotals['models'], before: ChatTotals['models']): ModelRise[] {
  return [...now].flatMap(([model, totals]) => {
    const last = before.get(model)
    const requests = totals.requests - (last?.requests ?? 0)
    if (requests === 0) return []
    return {
      model,
      requests,
      ttft: minus(totals.ttft, last?.ttft),
      perToken: minus(totals.perToken, last?.perToken),
      tokensIn: totals.tokensIn - (last?.tokensIn ?? 0),
      tokensOut: totals.tokensOut - (last?.tokensOut ?? 0),
    }
  })
}

function quantiles(counts: Float64Array, bounds: readonly number[]): TrafficPoint['ttft_ms'] {
  const [p50, p95] = [inMs(quantile(0.5, counts, bounds)), inMs(quantile(0.95, counts, bounds))]
  return p50 === null || p95 === null ? null : { p50, p95 }
}

function strategyRises(now: ChatTotals['mixtures'], before: ChatTotals['mixtures']): TrafficPoint['strategies'] {
  const of = (all: ChatTotals['mixtures'], strategy: string, outcome: string) =>
    all.find((each) => each.strategy === strategy && each.outcome === outcome)?.count ?? 0
  const risen = now.map(({ strategy, outcome, count }) => ({
    strategy,
    outcome,
    count: count - of(before, strategy, outcome),
  }))
  return risen.filter(({ count }) => count > 0)
}

/** The difference between two readings of the metrics. */
export function trafficBetween(before: ChatTotals, now: ChatTotals, atMs: number, seconds: number): TrafficPoint {
  const models = modelRises(now.models, before.models).toSorted((a, b) => b.requests - a.requests)
  const ttft = sumOf(
    models.map((model) => model.ttft),
    ttftBuckets.length + 1,
  )
  const perToken = sumOf(
    models.map((model) => model.perToken),
    perTokenBuckets.length + 1,
  )
  return {
    at: isoTime(atMs),
    seconds,
    requests: now.requests - before.requests,
    errors: rises(now.errors, before.errors),
    upstream_failures: rises(now.upstreamFailures, before.upstreamFailures),
    ttft_ms: quantiles(ttft, ttftBuckets),
    inter_chunk_ms: quantiles(perToken, perTokenBuckets),
    tokens_in: models.reduce((sum, { tokensIn }) => sum + tokensIn, 0),
    tokens_out: models.reduce((sum, { tokensOut }) => sum + tokensOut, 0),
    in_flight: now.inFlight,
    queued: now.queued,
    models: models.slice(0, modelsShownMax).map((model) => ({
      model: model.model,
      requests: model.requests,
      tokens_out: model.tokensOut,
      ttft_p50_ms: inMs(quantile(0.5, model.ttft, ttftBuckets)),
      inter_chunk_p50_ms: inMs(quantile(0.5, model.perToken, perTokenBuckets)),
      ttft_buckets: bucketsOf(model.ttft, ttftBuckets),
      inter_chunk_buckets: bucketsOf(model.perToken, perTokenBuckets),
    })),
    strategies: strategyRises(now.mixtures, before.mixtures),
  }
}

export interface TrafficOptions {
  readonly totals: () => Promise<ChatTotals>
  readonly log: Log
  readonly stepMs?: number
  readonly clock?: Clock
  /** Unix ms. */
  readonly now?: () => number
}

/** Keeps the last 15 minutes and reads the numbers of `/metrics` at every step. It adds no work to a chat request. */
export function createTraffic(options: TrafficOptions): TrafficSeries {
  const { totals, log, stepMs = trafficStepMs, clock, now: nowMs = Date.now } = options
  const ring: TrafficPoint[] = []
  const listeners = new Set<(point: TrafficPoint) => void>()
  let before: { readonly totals: ChatTotals; readonly atMs: number } | null = null
  const step = async () => {
    const now = { totals: await totals(), atMs: nowMs() }
    const last = before
    before = now
    if (last === null || now.atMs <= last.atMs) return
    const point = trafficBetween(last.totals, now.totals, now.atMs, (now.atMs - last.atMs) / 1_000)
    ring.push(point)
    if (ring.length > pointsMax) ring.shift()
    for (const listener of listeners) listener(point)
  }
  const onFailure = (error: unknown) => log.error('traffic', { failure: failureName(error) })
  const looking = loop({ everyMs: stepMs, run: step, onFailure, clock })
  return {
    points: () => [...ring],
    subscribe: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    start: () => void looking.startNow(),
    stop: () => void looking.stop(),
  }
}
