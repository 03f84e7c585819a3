import { Counter, type Registry } from 'prom-client'
import { metricPrefix } from '../../brand.ts'

/** One model on one node, in sums since the start of this process. */
export interface ModelPlace {
  readonly model: string
  /** What an operator calls the node. */
  readonly node: string
  readonly loads: number
  readonly unloads: number
  readonly loadS: number
  readonly cacheEvictions: number
}

type Sum = 'loads' | 'unloads' | 'loadS' | 'cacheEvictions'

/** Series of a model on a node; the rest is counted as `other`. */
const placesMax = 2_000
const otherLabel = 'other'

const counters: readonly (readonly [Sum, string, string])[] = [
  ['loads', 'model_loads_total', 'Models that were seen to come into the memory of their node'],
  ['unloads', 'model_unloads_total', 'Models that were seen to leave the memory of their node'],
  ['loadS', 'model_load_seconds_total', 'Time that the first call of each load has waited for it'],
  ['cacheEvictions', 'cache_evictions_total', 'Blocks of prompts that a node’s cache is thought to have dropped'],
]

/** What is read of models on nodes when somebody scrapes. */
export function registerPlaces(registry: Registry, places: () => readonly ModelPlace[] | undefined): void {
  for (const [sum, name, help] of counters) {
    new Counter({
      name: metricPrefix + name,
      help,
      labelNames: ['model', 'node'],
      registers: [registry],
      collect() {
        this.reset()
        for (const [at, place] of (places() ?? []).entries()) {
          const { model, node } = at < placesMax ? place : { model: otherLabel, node: otherLabel }
          this.inc({ model, node }, place[sum])
        }
      },
    })
  }
}
