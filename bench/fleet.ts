import { type LoadName, loads } from '../tests/machines/placement/fleet/plan.ts'
import { type RuleName, rules } from '../tests/machines/placement/fleet/rules.ts'
import { outcomeOf } from '../tests/machines/placement/fleet/simulation.ts'
import { circumstances } from './results.ts'
import { markdown } from './table.ts'

const seeds = [1, 2, 3, 4, 5]

/** Rules for the choice of a node against each other in virtual time, over all loads of the virtual fleet. */
export async function benchFleet(): Promise<string> {
  const names = Object.keys(rules) as RuleName[]
  const rows = (Object.keys(loads) as LoadName[]).map((load) => [
    load,
    ...names.map((rule) => {
      const { mean, p95 } = outcomeOf(rule, load, seeds)
      return `${mean.toFixed(2)} (${p95.toFixed(1)})`
    }),
  ])
  const how = `seconds to the first token in virtual time, mean and in brackets 95th percentile, means of ${seeds.length} seeds`
  return ['## Virtual fleet', circumstances(how), markdown(['load', ...names], rows)].join('\n\n')
}
