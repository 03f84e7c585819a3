import { type CaseName, cases } from './cases.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { build, startMock, stopAll } from './rig.ts'
import { caseTable, goalTable, type Results } from './table.ts'
import { direct, gatewayOn, startRaw, type Target, type TargetName, targetNames } from './targets.ts'

type Start = () => Promise<Target>
const settleMs = 150

/** How each target is started; a proxy can be started again, with nothing left of what it served before. */
function startersOf(rig: Rig, limits: boolean): Readonly<Record<TargetName, Start>> {
  const cpu = rig.pin?.proxyCpu ?? null
  return {
    direct: async () => direct(rig.mock),
    'raw Bun': () => startRaw(rig.mock, cpu),
    Penstock: gatewayOn([rig.mock.url(2)], { cpu, limits }),
  }
}

/** Nobody is always first. */
const orderOf = (round: number): readonly TargetName[] =>
  targetNames.map((_, at) => targetNames[(at + round) % targetNames.length] ?? 'direct')

function progress(name: CaseName, round: number, target: TargetName, sample: Sample): void {
  const { lat, ttft, rps, open } = sample
  const gist = cases[name].hold ? `${open} open` : `${rps.toFixed(0)}/s p50 ${(ttft ?? lat).p50.toFixed(0)} µs`
  const errors = errorsOf(sample)
  const failed = errors === 0 ? '' : `  ${errors} ERRORS ${JSON.stringify(sample.err)} ${sample.bad ?? ''}`
  process.stderr.write(`${name} ${round + 1} ${target}: ${gist}${failed}\n`)
}

type Samples = Record<TargetName, Sample[]>
const none = (): Samples => ({ direct: [], 'raw Bun': [], Penstock: [] })

async function steadyCases(rig: Rig, starters: ReturnType<typeof startersOf>, options: Options) {
  const results = new Map<CaseName, Samples>()
  const names = options.cases.filter((name) => cases[name].hold === undefined)
  if (names.length === 0) return results
  const targets = new Map<TargetName, Target>()
  for (const name of targetNames) {
    const target = await starters[name]()
    targets.set(name, target)
    await check(rig, target)
    process.stderr.write(`${name} is warming up\n`)
    await warmUp(rig, target, options.warmupSecs)
  }
  for (const name of names) {
    const samples = none()
    results.set(name, samples)
    for (let round = 0; round < options.rounds; round++) {
      for (const which of orderOf(round)) {
        const target = targets.get(which)
        if (target === undefined) continue
        const sample = await measure(rig, target, cases[name], options.secs)
        samples[which].push(sample)
        progress(name, round, which, sample)
        await Bun.sleep(settleMs)
      }
    }
  }
  for (const target of targets.values()) await target.stop()
  return results
}

async function holdCases(rig: Rig, starters: ReturnType<typeof startersOf>, options: Options) {
  const results = new Map<CaseName, Samples>()
  for (const name of options.cases.filter((name) => cases[name].hold)) {
    const samples = none()
    results.set(name, samples)
    for (let round = 0; round < options.rounds; round++) {
      for (const which of orderOf(round)) {
        const target = await starters[which]()
        await check(rig, target)
        await Bun.sleep(settleMs)
        const sample = await measure(rig, target, cases[name], options.secs)
        samples[which].push(sample)
        progress(name, round, which, sample)
        await target.stop()
      }
    }
  }
  return results
}

export async function compare(options: Options): Promise<{ readonly report: string; readonly results: Results }> {
  const { pin, rounds, secs, warmupSecs, limits } = options
  const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(pin?.loadCpu ?? null), pin }
  try {
    const starters = startersOf(rig, limits)
    const steady = await steadyCases(rig, starters, options)
    const results: Results = new Map([...steady, ...(await holdCases(rig, starters, options))])
    const how = `${rounds} rounds of ${secs} s after ${warmupSecs} s of warm-up each · ${pin === null ? 'not pinned' : 'proxies on one CPU, node and load on the other'}${limits ? ' · with quota and concurrency limit' : ''}`
    const tables = [...results].map(([name, samples]) => caseTable(name, samples))
    const report = ['## Gateway', circumstances(how), goalTable(results), ...tables].join('\n\n')
    return { report, results }
  } finally {
    await stopAll()
  }
}
