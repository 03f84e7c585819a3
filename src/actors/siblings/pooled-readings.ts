import { product } from '../../brand.ts'
import type { Labels, Wanted } from '../../machines/alerts/expression.ts'
import type { Reading, Readings } from '../../machines/alerts/history.ts'
import { AlertReadings } from '../../protocol/wire/admin/processes.ts'
import type { OwnReadings } from '../telemetry/alert-readings.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Siblings } from './siblings.ts'

/** What the alerts look at, of all processes of this gateway. */
export interface PooledReadings {
  readonly readings: Readings
  /** Of what is wanted, what has no metric on this computer, by name. */
  readonly missing: ReadonlySet<string>
  /** Processes that said nothing in time. */
  readonly silent: number
}

type Told = AlertReadings['readings']

/** What an operator reads in the place of the address by which Prometheus knows a gateway. */
const instance = 'This gateway'

/** What the scraper would add. */
const scraped = (index: number | null): Labels => ({
  job: product,
  instance,
  ...(index === null ? {} : { process: String(index) }),
})

const knownReadings = (own: OwnReadings): Told =>
  Object.fromEntries([...own].flatMap(([name, readings]) => (readings === null ? [] : [[name, [...readings]]])))

/** What this process has counted, for its siblings. */
export const readingsOnWire = async (
  metrics: Pick<Metrics, 'readings'>,
  wanted: readonly Wanted[],
  index: number | null,
): Promise<AlertReadings> => ({ index, readings: knownReadings(await metrics.readings(wanted)) })

/** The readings of all processes, each with the labels that tell them apart. */
export async function pooledReadings(
  metrics: Pick<Metrics, 'readings'>,
  wanted: readonly Wanted[],
  siblings: Pick<Siblings, 'survey' | 'index'>,
): Promise<PooledReadings> {
  const [own, { answers, silent }] = await Promise.all([
    metrics.readings(wanted),
    siblings.survey('readings', {}, AlertReadings),
  ])
  const all = new Map<string, Reading[]>()
  for (const { index, readings } of [{ index: siblings.index, readings: knownReadings(own) }, ...answers]) {
    const labels = scraped(index)
    for (const [name, list] of Object.entries(readings)) {
      const known = all.get(name) ?? []
      all.set(name, known)
      for (const reading of list) known.push({ ...reading, labels: { ...reading.labels, ...labels } })
    }
  }
  const missing = new Set([...own].flatMap(([name, readings]) => (readings === null ? [name] : [])))
  return { readings: all, missing, silent }
}
