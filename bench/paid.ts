import { type Case, type CaseName, cases } from './cases.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { proveBooks, startPaidGateway, type Way, ways } from './paid-gateway.ts'
import { circumstances } from './results.ts'
import { build, startMock, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import type { Target } from './targets.ts'

/** The last one is what a model is like; the others show what money costs where nothing hides it. */
const measured = {
  json1: cases.json1,
  json64: cases.json64,
  short: cases.short,
  think: {
    about: '64 connections, the node takes 100 ms',
    load: ['--mode', 'json', '--conns', '64', '--delay', '100000'],
    columns: [],
  },
} as const satisfies Readonly<Record<string, Case>>
type Measured = keyof typeof measured
/** Of requests a second, and of the median latency, at 64 connections. */
const ratioGoal = 1.3
const settleMs = 150

type Rounds = Readonly<Record<Way, readonly Sample[]>>

/** Within each round, then the median: what disturbs a round disturbs both. Above 1: paid is that much worse. */
export function paidRatios({ free, paid }: Rounds): { readonly p50: number; readonly throughput: number } {
  const each = (of: (free: Sample, paid: Sample) => number) =>
    median(free.flatMap((sample, round) => (paid[round] === undefined ? [] : [of(sample, paid[round])])))
  return { p50: each((a, b) => b.lat.p50 / a.lat.p50), throughput: each((a, b) => a.rps / b.rps) }
}

async function measureCase(rig: Rig, target: (way: Way) => Target, name: Measured, options: Options): Promise<Rounds> {
  const rounds: Record<Way, Sample[]> = { free: [], paid: [] }
  for (let round = 0; round < options.rounds; round++) {
    for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
      const sample = await measure(rig, target(way), measured[name], options.secs)
      rounds[way].push(sample)
      process.stderr.write(
        `${name} ${round + 1} ${way}: ${sample.rps.toFixed(0)}/s p50 ${sample.lat.p50.toFixed(0)} µs\n`,
      )
      await Bun.sleep(settleMs)
    }
  }
  return rounds
}

const middle = (samples: readonly Sample[], of: (sample: Sample) => number) => median(samples.map(of))

function rowOf(name: Measured, rounds: Rounds): string[] {
  const ratios = paidRatios(rounds)
  return [
    measured[name].about,
    ...ways.map((way) => middle(rounds[way], ({ lat }) => lat.p50).toFixed(0)),
    ratios.p50.toFixed(2),
    ...ways.map((way) => middle(rounds[way], ({ rps }) => rps).toFixed(0)),
    ratios.throughput.toFixed(2),
    String([...rounds.free, ...rounds.paid].reduce((sum, sample) => sum + errorsOf(sample), 0)),
  ]
}

/** At 64 connections on one customer. */
function verdictOf(name: Measured, rounds: Rounds | undefined): string {
  if (rounds === undefined) return ''
  const { p50, throughput } = paidRatios(rounds)
  const met = Math.max(p50, throughput) <= ratioGoal ? 'met' : '**not met**'
  const ratios = `p50 ${p50.toFixed(2)}, throughput ${throughput.toFixed(2)}`
  return `${measured[name].about}: paid is worse by ${ratios}; the goal is within ${ratioGoal}: ${met}.`
}

/** Paid chat against free chat, through one gateway to one node. */
export async function comparePaid(options: Options): Promise<string> {
  try {
    const rig: Rig = {
      loadgen: build('loadgen'),
      mock: await startMock(options.pin?.loadCpu ?? null),
      pin: options.pin,
    }
    const { admin, target } = await startPaidGateway(rig, rig.mock.url(2))
    for (const way of ways) {
      await check(rig, target(way))
      process.stderr.write(`${way} is warming up\n`)
      await warmUp(rig, target(way), options.warmupSecs)
    }
    const results = new Map<Measured, Rounds>()
    for (const name of Object.keys(measured) as Measured[]) {
      if (name !== 'think' && !options.cases.includes(name satisfies CaseName)) continue
      results.set(name, await measureCase(rig, target, name, options))
    }
    const head = ['case', 'free: p50 µs', 'paid: p50 µs', 'paid ÷ free', 'free/s', 'paid/s', 'free ÷ paid', 'errors']
    const table = markdown(
      head,
      [...results].map(([name, rounds]) => rowOf(name, rounds)),
    )
    const load = `${options.rounds} rounds of ${options.secs} s; gateway, its database with fsync on, node and load share the machine`
    const verdicts = (['json64', 'think'] as const).map((name) => verdictOf(name, results.get(name)))
    const said = [...verdicts, await proveBooks(admin)].filter((text) => text !== '').join('\n')
    return ['## Paid chat', circumstances(load), table, said].join('\n\n')
  } finally {
    await stopAll()
  }
}
