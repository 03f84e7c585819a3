import type { Registry } from 'prom-client'
import type { Labels, Matcher, Wanted } from '../../machines/alerts/expression.ts'
import { labelsKey, type Reading } from '../../machines/alerts/history.ts'
import { Histogram, type MetricLabels } from './histogram.ts'

/** By the name of what was wanted; null: this process has no such metric. */
export type OwnReadings = ReadonlyMap<string, readonly Reading[] | null>

interface Sample {
  readonly metricName?: string
  readonly labels: Partial<Record<string, string | number>>
  readonly value: number
}

const bucketSuffix = '_bucket'

/** A matcher of PromQL looks at the whole value, and a label that is absent is empty. */
function test([label, is, value]: Matcher): (labels: Labels) => boolean {
  if (is === '=~') {
    const pattern = new RegExp(`^(?:${value})$`)
    return (labels) => pattern.test(labels[label] ?? '')
  }
  return (labels) => (labels[label] === value) === (is === '=')
}

/** `job` and its like are labels that the scraper adds: the readings of this process are meant. */
const scrapers: readonly string[] = ['job', 'instance']

const texts = (labels: MetricLabels | Sample['labels']): Labels =>
  Object.fromEntries(
    Object.entries(labels).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )

/** One reading for those that agree in the labels. */
function summed(readings: readonly Reading[], keep: readonly string[]): readonly Reading[] {
  const groups = new Map<string, { readonly labels: Labels; value: number }>()
  for (const { labels, value } of readings) {
    const kept = Object.fromEntries(keep.flatMap((name) => (name in labels ? [[name, labels[name] ?? '']] : [])))
    const key = labelsKey(kept)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { labels: kept, value })
    else group.value += value
  }
  return [...groups.values()]
}

async function samplesOf(
  registry: Registry,
  { of: { metric, where }, keep }: Wanted,
): Promise<readonly Sample[] | null> {
  const name = metric.endsWith(bucketSuffix) ? metric.slice(0, -bucketSuffix.length) : metric
  const found: unknown = registry.getSingleMetric(name)
  if (found === undefined) return null
  if (found instanceof Histogram && metric !== name && keep !== null && where.length === 0) return found.summed(keep)
  const { values } = await (found as { readonly get: () => Promise<{ readonly values: readonly Sample[] }> }).get()
  return values.filter(({ metricName = metric }) => metricName === metric)
}

/** What the alerts look at, of the registry that `/metrics` shows. */
export async function readWanted(registry: Registry, wanted: readonly Wanted[]): Promise<OwnReadings> {
  const read = async (each: Wanted): Promise<readonly Reading[] | null> => {
    const samples = await samplesOf(registry, each)
    if (samples === null) return null
    const tests = each.of.where.filter(([label]) => !scrapers.includes(label)).map(test)
    const readings = samples
      .map(({ labels, value }) => ({ labels: texts(labels), value }))
      .filter(({ labels }) => tests.every((fits) => fits(labels)))
    return each.keep === null ? readings : summed(readings, each.keep)
  }
  return new Map(await Promise.all(wanted.map(async (each) => [each.name, await read(each)] as const)))
}
