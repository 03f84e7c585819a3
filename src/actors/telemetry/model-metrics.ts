import type { Registry } from 'prom-client'
import { brand, metricPrefix } from '../../brand.ts'
import { Histogram, type Series } from './histogram.ts'

/** One call for a model: a chat request, or a sub-call of a mixture, which is no request of its own. */
export interface ModelCallSample {
  readonly durationS: number
  /** null: no content was sent. */
  readonly ttftS: number | null
  readonly promptTokens: number
  readonly completionTokens: number
  /** The public id of a model that was found; null for a request refused before. Never a caller's own text. */
  readonly model: string | null
  /** The id of the node that was called last; null: none was. */
  readonly nodeId: string | null
  /** Waited for a slot. */
  readonly queueS: number
  /** Of the prompt, 0 to 1, in the cache of its node; null: unknown. */
  readonly cacheShare: number | null
}

/** Sums since the start of one model's series; the arrays are counts by bucket, not cumulated. */
export interface ModelTotals {
  readonly requests: number
  readonly ttft: Float64Array
  readonly perToken: Float64Array
  readonly tokensIn: number
  readonly tokensOut: number
}

export interface ModelMetrics {
  call(sample: ModelCallSample): void
  /** Of a stream, beside `call`: how long each token after the first took. */
  spoke(sample: ModelCallSample): void
  totals(): ReadonlyMap<string, ModelTotals>
}

export const otherLabel = 'other'
/** Series of distinct models; the rest is counted as `other`. */
const modelLabelsMax = 1_000
/** Distinct names of nodes; and series of a model on a node. The rest is counted as `other`. */
const nodeLabelsMax = 500
const placesMax = 2_000

// Buckets of the OpenTelemetry semantic conventions for generative AI (docs/gen-ai/gen-ai-metrics.md), and some for what takes longer
// here: beyond the last bound a percentile can say no more than that bound.
const tokenBuckets = Array.from({ length: 14 }, (_, i) => 4 ** i)
const durationBuckets = Array.from({ length: 14 }, (_, i) => 2 ** i / 100)
export const ttftBuckets = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 640,
]
export const perTokenBuckets = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10]

const queueBuckets = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const cacheBuckets = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1]

interface ModelSeries {
  readonly perToken: Series
  readonly input: Series
  readonly output: Series
  /** By the label of a node; `''`: of requests that no node was called for. */
  readonly places: Map<string, PlaceSeries>
}

/** A model on a node. */
interface PlaceSeries {
  readonly duration: Series
  readonly ttft: Series
  readonly queue: Series
  /** Made when something is known: most models say nothing. */
  cache: Series | null
}

function histograms(registry: Registry) {
  const histogram = (name: string, help: string, buckets: readonly number[]) =>
    new Histogram(name, help, buckets, registry)
  const [usage, duration] = ['gen_ai_client_token_usage', 'gen_ai_client_operation_duration_seconds']
  const ttft = 'gen_ai_server_time_to_first_token_seconds'
  const perToken = 'gen_ai_server_time_per_output_token_seconds'
  return {
    usage: histogram(usage, 'Tokens of chat requests', tokenBuckets),
    duration: histogram(duration, 'Chat requests from start to last byte', durationBuckets),
    ttft: histogram(ttft, 'Calls asked as a stream, from start to first content', ttftBuckets),
    queue: new Histogram(
      `${metricPrefix}queue_wait_seconds`,
      'Calls, from admission to a slot',
      queueBuckets,
      registry,
    ),
    cache: new Histogram(
      `${metricPrefix}cache_match_ratio`,
      'Share of a prompt that was in the cache of its node',
      cacheBuckets,
      registry,
    ),
    perToken: histogram(
      perToken,
      'Streams from first content to last byte, per token after the first',
      perTokenBuckets,
    ),
  }
}

const labelsOf = (model: string) => ({
  gen_ai_operation_name: 'chat',
  gen_ai_provider_name: brand,
  gen_ai_request_model: model,
})

type Histograms = ReturnType<typeof histograms>

function seriesOf({ usage, perToken }: Histograms, model: string): ModelSeries {
  const labels = labelsOf(model)
  return {
    perToken: perToken.series(labels),
    input: usage.series({ ...labels, gen_ai_token_type: 'input' }),
    output: usage.series({ ...labels, gen_ai_token_type: 'output' }),
    places: new Map(),
  }
}

function placeOf({ duration, ttft, queue }: Histograms, model: string, node: string): PlaceSeries {
  const named = node === '' ? {} : { node }
  const labels = { ...labelsOf(model), ...named }
  return {
    duration: duration.series(labels),
    ttft: ttft.series(labels),
    queue: queue.series({ model, ...named }),
    cache: null,
  }
}

function totalsOf({ places, perToken, input, output }: ModelSeries): ModelTotals {
  const ttft = new Float64Array(ttftBuckets.length + 1)
  let requests = 0
  for (const place of places.values()) {
    requests += place.duration.count
    for (const [i, count] of place.ttft.counts().entries()) ttft[i] = (ttft[i] ?? 0) + count
  }
  return { requests, ttft, perToken: perToken.counts(), tokensIn: input.sum, tokensOut: output.sum }
}

/** How nodes are called in metrics: each is asked for once. */
function nodeLabels(nameOf: (nodeId: string) => string | null): (nodeId: string | null) => string {
  const known = new Map<string, string>()
  return (nodeId) => {
    if (nodeId === null) return ''
    const label = known.get(nodeId)
    if (label !== undefined) return label
    if (known.size >= nodeLabelsMax) return otherLabel
    const name = nameOf(nodeId) ?? nodeId
    known.set(nodeId, name)
    return name
  }
}

/** The series of each model and of each model on a node, made at its first request. */
export function createModelMetrics(registry: Registry, nameOf: (nodeId: string) => string | null): ModelMetrics {
  const all = histograms(registry)
  const made = new Map<string, ModelSeries>()
  const labelOf = nodeLabels(nameOf)
  let places = 0
  const of = (model: string): ModelSeries => {
    const known = made.get(model)
    if (known) return known
    if (made.size >= modelLabelsMax && model !== otherLabel) return of(otherLabel)
    const series = seriesOf(all, model)
    made.set(model, series)
    return series
  }
  const placed = (series: ModelSeries, model: string, node: string): PlaceSeries => {
    const known = series.places.get(node)
    if (known) return known
    const bounded = node === '' || node === otherLabel
    if (places >= placesMax && !bounded) return placed(series, model, otherLabel)
    if (!bounded) places++
    const place = placeOf(all, made.get(model) === series ? model : otherLabel, node)
    series.places.set(node, place)
    return place
  }
  return {
    call(sample) {
      if (sample.model === null) return
      const series = of(sample.model)
      const place = placed(series, sample.model, labelOf(sample.nodeId))
      place.duration.observe(sample.durationS)
      if (sample.ttftS !== null) place.ttft.observe(sample.ttftS)
      place.queue.observe(sample.queueS)
      if (sample.cacheShare !== null) {
        place.cache ??= all.cache.series(place.queue.labels)
        place.cache.observe(sample.cacheShare)
      }
      if (sample.promptTokens > 0) series.input.observe(sample.promptTokens)
      if (sample.completionTokens > 0) series.output.observe(sample.completionTokens)
    },
    spoke({ model, ttftS, completionTokens, durationS }) {
      if (model === null || ttftS === null || completionTokens < 2) return
      of(model).perToken.observe((durationS - ttftS) / (completionTokens - 1))
    },
    totals: () => new Map([...made].map(([model, series]) => [model, totalsOf(series)])),
  }
}
