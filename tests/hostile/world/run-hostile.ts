import { expect } from 'bun:test'
import type { HostileGateway } from './hostile-gateway.ts'
import { type AnyLane, type RunOptions, type RunReport, runLanes } from './lanes.ts'

const { HOSTILE_SEED, HOSTILE_LANE, HOSTILE_PATH, HOSTILE_CASES } = process.env

/** For `untilMs`. A busy machine plays until `casesMin` all the same. */
export const msFromNow = (ms: number) => performance.now() + ms

/** How many cases are to run; `HOSTILE_CASES` changes it. */
export const casesAsked = (standard: number) => Number(HOSTILE_CASES ?? standard)

export interface Asked extends Omit<RunOptions, 'path'> {
  /** A run that played fewer has shown nothing, unless it repeats one counterexample. */
  readonly casesMin: number
}

/** Runs it, or what the environment names of it, prints a table and fails with the smallest case that shows a fault. */
export async function expectHarmless(
  gateway: HostileGateway,
  lanes: readonly AnyLane[],
  asked: Asked,
): Promise<RunReport> {
  const chosen = HOSTILE_LANE === undefined ? lanes : lanes.filter((_, at) => at === Number(HOSTILE_LANE))
  const report = await runLanes(gateway, chosen, {
    ...asked,
    ...(HOSTILE_SEED === undefined ? {} : { seed: Number(HOSTILE_SEED) }),
    ...(HOSTILE_PATH === undefined ? {} : { path: HOSTILE_PATH }),
  })
  const kinds = [...report.byKind].sort(([a], [b]) => a.localeCompare(b)).map(([kind, n]) => `${kind} ${n}`)
  console.log(
    `${report.cases} cases (${kinds.join(', ')}), ${report.rests} times at rest, asked again ${report.retried}, ` +
      `longest turn ${Math.round(report.worstMs)} ms`,
  )
  expect(report.failures.join('\n\n')).toBe('')
  if (HOSTILE_PATH === undefined) expect(report.cases).toBeGreaterThanOrEqual(Math.min(asked.casesMin, asked.casesMax))
  return report
}
