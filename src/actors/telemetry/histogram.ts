import type { Metric, Registry } from 'prom-client'

export type MetricLabels = Readonly<Record<string, string | number>>

interface Sample {
  readonly metricName: string
  readonly labels: MetricLabels
  readonly value: number
}

/**
 * One labelled series of a histogram. prom-client's labelled `observe` costs 0.7–0.9 µs (measured), this about 0.02 µs:
 * the series is resolved once, the buckets are counted apart and summed up when they are scraped.
 */
export class Series {
  readonly #counts: Float64Array
  #sum = 0
  #total = 0
  constructor(
    readonly labels: MetricLabels,
    private readonly bounds: readonly number[],
  ) {
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const { bounds } = this
    let i = 0
    while (i < bounds.length && value > (bounds[i] as number)) i++
    this.#counts[i] = (this.#counts[i] ?? 0) + 1
    this.#sum += value
    this.#total++
  }

  get count(): number {
    return this.#total
  }

  get sum(): number {
    return this.#sum
  }

  /** By bucket, not cumulated; the last one is beyond every bound. */
  counts(): Float64Array {
    return this.#counts.slice()
  }

  addTo(sums: Float64Array): void {
    for (const [at, count] of this.#counts.entries()) sums[at] = (sums[at] ?? 0) + count
  }

  *samples(name: string): Generator<Sample> {
    let cumulated = 0
    for (const [i, count] of this.#counts.entries()) {
      cumulated += count
      yield { metricName: `${name}_bucket`, labels: { ...this.labels, le: this.bounds[i] ?? '+Inf' }, value: cumulated }
    }
    yield { metricName: `${name}_sum`, labels: this.labels, value: this.#sum }
    yield { metricName: `${name}_count`, labels: this.labels, value: cumulated }
  }
}

/** A histogram whose series the caller holds on to. */
export class Histogram {
  readonly #series: Series[] = []
  constructor(
    readonly name: string,
    readonly help: string,
    private readonly bounds: readonly number[],
    registry: Registry,
  ) {
    // The registry asks a metric for its name, help, type and values only, all of which stand here.
    registry.registerMetric(this as unknown as Metric)
  }

  series(labels: MetricLabels): Series {
    const series = new Series(labels, this.bounds)
    this.#series.push(series)
    return series
  }

  get(): { name: string; help: string; type: 'histogram'; values: Sample[] } {
    const values = this.#series.flatMap((series) => [...series.samples(this.name)])
    return { name: this.name, help: this.help, type: 'histogram', values }
  }

  /** The cumulated buckets of series that agree in `keep`, without an object for each series: a pool has tens of thousands. */
  summed(keep: readonly string[]): readonly { readonly labels: MetricLabels; readonly value: number }[] {
    const groups = new Map<string, { readonly labels: MetricLabels; readonly counts: Float64Array }>()
    for (const series of this.#series) {
      const names = keep.filter((name) => series.labels[name] !== undefined)
      const key = names.map((name) => `${name}=${series.labels[name]}`).join('\n')
      const known = groups.get(key)
      if (known === undefined) {
        const labels = Object.fromEntries(names.map((name) => [name, series.labels[name] ?? '']))
        groups.set(key, { labels, counts: series.counts() })
      } else series.addTo(known.counts)
    }
    return [...groups.values()].flatMap(({ labels, counts }) => {
      let cumulated = 0
      return [...counts].map((count, at) => {
        cumulated += count
        return { labels: { ...labels, le: this.bounds[at] ?? '+Inf' }, value: cumulated }
      })
    })
  }

  reset(): void {
    this.#series.length = 0
  }
}
