import { type CaseName, cases } from './cases.ts'
import { columns, show } from './columns.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { build, startMock, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import { gatewayOn, type Target } from './targets.ts'

const compared: readonly CaseName[] = ['json64', 'short', 'stream']
const counts = [1, 2] as const
type Count = (typeof counts)[number]
const settleMs = 150

/** All processes of the gateway and its database together. */
const cpuOf = (sample: Sample) => columns.cpuRequestAll.of(sample)

async function roundsOf(rig: Rig, targets: Readonly<Record<Count, Target>>, name: CaseName, options: Options) {
  const samples: Record<Count, Sample[]> = { 1: [], 2: [] }
  for (let round = 0; round < options.rounds; round++) {
    for (const count of round % 2 === 0 ? counts : counts.toReversed()) {
      samples[count].push(await measure(rig, targets[count], cases[name], options.secs))
      await Bun.sleep(settleMs)
    }
  }
  return samples
}

/** Two ÷ one, within each round, then the median. */
const ratio = (samples: Readonly<Record<Count, readonly Sample[]>>, of: (sample: Sample) => number) =>
  median(samples[2].map((sample, round) => of(sample) / of(samples[1][round] ?? sample)))

/** One process against two (§33), on the CPUs that the node and the load generator use as well. */
export async function compareProcesses(options: Options): Promise<string> {
  const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(null), pin: null }
  const { rounds, secs, warmupSecs } = options
  try {
    const started = (count: Count) =>
      gatewayOn([rig.mock.url(count)], { cpu: null, env: { SVC_PROCESSES: String(count) } })()
    const targets: Record<Count, Target> = { 1: await started(1), 2: await started(2) }
    for (const count of counts) {
      await check(rig, targets[count])
      await warmUp(rig, targets[count], warmupSecs)
    }
    const rows: string[][] = []
    for (const name of options.cases.filter((one) => compared.includes(one))) {
      const samples = await roundsOf(rig, targets, name, options)
      const shown = (of: (sample: Sample) => number, count: Count) => median(samples[count].map(of))
      rows.push([
        name,
        ...counts.map((count) => show('rps', shown(columns.rps.of, count))),
        ratio(samples, columns.rps.of).toFixed(2),
        ...counts.map((count) => show('cpuRequestAll', shown(cpuOf, count))),
        ratio(samples, cpuOf).toFixed(2),
        String([...samples[1], ...samples[2]].reduce((sum, sample) => sum + errorsOf(sample), 0)),
      ])
    }
    const head = ['', 'requests/s: one', 'two', '÷', 'CPU s/1,000 req with database: one', 'two', '÷', 'errors']
    const how = `${rounds} rounds of ${secs} s after ${warmupSecs} s of warm-up each · processes, database, node and load generator share all CPUs`
    return ['## Processes', circumstances(how), markdown(head, rows)].join('\n\n')
  } finally {
    await stopAll()
  }
}
