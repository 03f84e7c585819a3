import { readFileSync } from 'node:fs'
import { cases } from './cases.ts'
import { columns, show } from './columns.ts'
import { CpuShare } from './cpu-share.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { type PaidGateway, proveBooks, startPaidGateway, type Way, ways } from './paid-gateway.ts'
import { circumstances } from './results.ts'
import { build, cpuSeconds, descendants, startMock, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'

const counts = [1, 2] as const
type Count = (typeof counts)[number]
const settleMs = 150

/** Of one core, for each process: little enough that database, node and load generator find theirs beside two of them. */
const shareCores = 0.2
const throughputGoal = 1.8
const costGoal = 1.05

interface Compared {
  readonly name: string
  readonly way: Way
  readonly load: readonly string[]
}

const paced = (name: string, way: Way, perSecond: number): Compared => ({
  name: `${name}, ${perSecond} a second`,
  way,
  load: ['--mode', 'json', '--conns', '64', '--rate', String(perSecond)],
})
/** As many requests for two as for one, and time left over. */
const paces: readonly Compared[] = [
  paced('chat', 'free', 1_500),
  { name: '200 streams, a chunk each 10 ms', way: 'free', load: cases.stream.load },
  paced('paid chat', 'paid', 400),
]
/** As many as they can, with connections enough that each of two has its hands full. */
const conns = ['--conns', '128']
const closed: readonly Compared[] = [
  { name: 'chat', way: 'free', load: ['--mode', 'json', ...conns] },
  { name: 'streams of 5 chunks', way: 'free', load: ['--mode', 'stream', ...conns, '--n', '5', '--us', '0'] },
  { name: 'paid chat', way: 'paid', load: ['--mode', 'json', ...conns] },
  // A group of charges is what is under way at once: of 128, each of two has half of it.
  { name: 'paid chat, 512 at once', way: 'paid', load: ['--mode', 'json', '--conns', '512'] },
]

interface Measured extends Sample {
  /** Of one core, by the load generator and the node. */
  readonly rigCores: number
}
type Rounds = Readonly<Record<Count, readonly Measured[]>>
type Gateways = Readonly<Record<Count, PaidGateway>>

async function measured(rig: Rig, gateway: PaidGateway, { way, load }: Compared, secs: number): Promise<Measured> {
  const before = cpuSeconds(rig.mock.pid)
  const beganMs = performance.now()
  const sample = await measure(rig, gateway.target(way), { about: '', columns: [], load }, secs)
  const nodeCores = (cpuSeconds(rig.mock.pid) - before) / ((performance.now() - beganMs) / 1_000)
  return { ...sample, rigCores: nodeCores + sample.self_cpu_pct / 100 }
}

interface Loads {
  readonly closed: readonly Compared[]
  readonly paces: readonly Compared[]
}
const allLoads: Loads = { closed, paces }
const isChat = ({ name }: Compared) => name === 'chat' || name === 'paid chat'
/** Enough to see that all is asked, paid and measured. */
export const fewLoads: Loads = { closed: closed.filter(isChat), paces: paces.slice(0, 1) }

async function roundsOf(rig: Rig, gateways: Gateways, one: Compared, { rounds, secs }: Options): Promise<Rounds> {
  const samples: Record<Count, Measured[]> = { 1: [], 2: [] }
  for (let round = 0; round < rounds; round++) {
    for (const count of round % 2 === 0 ? counts : counts.toReversed()) {
      samples[count].push(await measured(rig, gateways[count], one, secs))
      process.stderr.write(`${one.name}, ${count}: ${samples[count].at(-1)?.rps.toFixed(0)}/s\n`)
      await Bun.sleep(settleMs)
    }
  }
  return samples
}

/** Two ÷ one, within each round, then the median. */
const ratio = (rounds: Rounds, of: (sample: Sample) => number) =>
  median(rounds[2].map((sample, round) => of(sample) / of(rounds[1][round] ?? sample)))
const verdict = (met: boolean) => (met ? 'yes' : '**no**')
/** All processes of the gateway and its database together. */
const cpuOf = (sample: Sample) => columns.cpuRequestAll.of(sample)

function row(name: string, rounds: Rounds): string[] {
  const both = [...rounds[1], ...rounds[2]]
  const [throughput, cost] = [ratio(rounds, columns.rps.of), ratio(rounds, cpuOf)]
  return [
    name,
    ...counts.map((count) => show('rps', median(rounds[count].map(columns.rps.of)))),
    throughput.toFixed(2),
    ...counts.map((count) => show('cpuRequestAll', median(rounds[count].map(cpuOf)))),
    cost.toFixed(2),
    median(both.map(({ rigCores }) => rigCores)).toFixed(2),
    String(both.reduce((sum, sample) => sum + errorsOf(sample), 0)),
  ]
}

const head = (what: string) => [
  what,
  'requests/s: one',
  'two',
  '÷',
  'CPU s/1,000 req with database: one',
  'two',
  '÷',
  'cores of node and load',
  'errors',
]

async function table(rig: Rig, gateways: Gateways, what: string, compared: readonly Compared[], options: Options) {
  const rounds: Rounds[] = []
  for (const one of compared) rounds.push(await roundsOf(rig, gateways, one, options))
  const rows = compared.map(({ name }, at) => row(name, rounds[at] as Rounds))
  return { rounds, text: markdown(head(what), rows) }
}

/** Those that serve: below a supervisor, or the one that was started. Its PostgreSQL is none. */
export function servingPids(pid: number): readonly number[] {
  const below = descendants(pid).filter((child) =>
    readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('src/main.ts'),
  )
  return below.length === 0 ? [pid] : below
}

/**
 * Gives each process that serves its share; null where this user may not. A supervisor passes their log lines on, and has
 * to find the time for it in the share of the first. `made` takes what has to be removed.
 */
function shared(gateways: Gateways, made: CpuShare[]): boolean {
  for (const count of counts) {
    const { pid: started } = gateways[count].target('free')
    for (const [at, pid] of servingPids(started).entries()) {
      const share = CpuShare.make(String(pid), shareCores)
      if (share === null) return false
      made.push(share)
      share.hold(pid)
      if (at === 0) share.hold(started)
    }
  }
  return true
}

async function warm(rig: Rig, gateway: PaidGateway, secs: number): Promise<void> {
  for (const way of ways) {
    await check(rig, gateway.target(way))
    await warmUp(rig, gateway.target(way), secs)
  }
}

function costVerdict(when: string, measuredRounds: readonly Rounds[]): string {
  const dearest = Math.max(...measuredRounds.map((rounds) => ratio(rounds, cpuOf)))
  return `${when}, a request costs at most ${dearest.toFixed(2)} times as much; the goal is ${costGoal}: ${verdict(dearest <= costGoal)}.`
}

/** One process against two (§33): at the same load on CPUs that all share, and each with processor time of its own. */
export async function compareProcesses(options: Options, loads: Loads = allLoads): Promise<string> {
  const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(null), pin: null }
  const shares: CpuShare[] = []
  try {
    const started = async (count: Count) => {
      const gateway = await startPaidGateway(rig, rig.mock.url(count), { env: { SVC_PROCESSES: String(count) } })
      // Each process has a JIT of its own to warm.
      await warm(rig, gateway, options.warmupSecs * count)
      return gateway
    }
    const gateways: Gateways = { 1: await started(1), 2: await started(2) }
    const full = await table(rig, gateways, 'on CPUs that all share, as many as they can', loads.closed, options)
    const same = await table(rig, gateways, 'the same load for both, and time left over', loads.paces, options)
    const parts = [
      full.text,
      costVerdict('On CPUs that all share', full.rounds),
      same.text,
      costVerdict('With time left over', same.rounds),
    ]
    if (shared(gateways, shares)) {
      const what = `${shareCores} of a core for each process, all of it used`
      const own = await table(rig, gateways, what, loads.closed, options)
      const least = Math.min(...own.rounds.map((rounds) => ratio(rounds, columns.rps.of)))
      parts.unshift(
        own.text,
        `Two processes answer at least ${least.toFixed(2)} times as much as one; the goal is ${throughputGoal}: ${verdict(least >= throughputGoal)}.`,
        costVerdict('Where all of the time is used', own.rounds),
      )
    } else parts.push('This user may make no control group, so no process could be given processor time of its own.')
    for (const count of counts) parts.push(await proveBooks(gateways[count].admin))
    const { rounds, secs, warmupSecs } = options
    const how = `${rounds} rounds of ${secs} s after ${warmupSecs} s of warm-up each and more · processes, database, node and load generator on the same CPUs`
    return ['## Processes', circumstances(how), ...parts].join('\n\n')
  } finally {
    await stopAll()
    for (const share of shares) share.remove()
  }
}
