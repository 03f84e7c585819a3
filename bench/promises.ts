import { join } from 'node:path'
import type { Case } from './cases.ts'
import { check, errorsOf, headersOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { proveBooks, startPaidGateway } from './paid-gateway.ts'
import { circumstances } from './results.ts'
import { build, RigError, startMock, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import { model, type Target } from './targets.ts'

const ways = ['without', 'with'] as const
type Way = (typeof ways)[number]
export type PromiseRounds = Readonly<Record<Way, readonly Sample[]>>

const stream = ['--mode', 'stream', '--n', '5', '--us', '0']
const measured: readonly Omit<Case, 'columns'>[] = [
  { about: 'whole, 100/s', load: ['--mode', 'json', '--conns', '8', '--rate', '100'] },
  { about: 'whole, 1 connection', load: ['--mode', 'json', '--conns', '1'] },
  { about: 'whole, 64', load: ['--mode', 'json', '--conns', '64'] },
  { about: 'stream, 1 connection', load: [...stream, '--conns', '1'] },
  { about: 'stream, 64', load: [...stream, '--conns', '64'] },
]
const settleMs = 150

const sum = (samples: readonly Sample[], of: (sample: Sample) => number) =>
  samples.reduce((all, sample) => all + of(sample), 0)

/** What promises change in these samples, of as many rounds each. */
type Change = (without: readonly Sample[], with_: readonly Sample[]) => number
const ratio =
  (of: (sample: Sample) => number): Change =>
  (without, with_) =>
    sum(with_, of) / sum(without, of)
const ownCpu = ({ cpu_us_req: own = Number.NaN }: Sample) => own
const allCpu = ({ cpu_us_req: own = Number.NaN, cpu2_us_req: side = 0 }: Sample) => own + side

/** Of processor time and requests/s with ÷ without, of the time of a request what is added, ms. */
const figures = {
  cpu: ratio(ownCpu),
  cpuAll: ratio(allCpu),
  rps: ratio(({ rps }) => rps),
  addedMs: (without, with_) =>
    (sum(with_, ({ lat }) => lat.p50) - sum(without, ({ lat }) => lat.p50)) / 1e3 / without.length,
} as const satisfies Readonly<Record<string, Change>>

export interface Figure {
  readonly middle: number
  /** Half of the rounds lie between these. */
  readonly from: number
  readonly to: number
}

function quartile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.round((sorted.length - 1) * share)] ?? Number.NaN
}

/**
 * Within each two rounds, in one of which each way came first: whichever comes second gets up to a tenth more. Then the median and the
 * quartiles: what disturbs two rounds disturbs both ways.
 */
export function promiseCost(rounds: PromiseRounds, name: keyof typeof figures): Figure {
  const each: number[] = []
  for (let round = 0; round < rounds.with.length; round += 2) {
    const [without, with_] = ways.map((way) => rounds[way].slice(round, round + 2)) as [Sample[], Sample[]]
    each.push(figures[name](without, with_))
  }
  return { middle: median(each), from: quartile(each, 0.25), to: quartile(each, 0.75) }
}

const cpuOfAll = (samples: readonly Sample[]) =>
  samples.reduce((sum, { ok, cpu_us_req: each = Number.NaN }) => sum + ok * each, 0) /
  samples.reduce((sum, { ok }) => sum + ok, 0)

/** All processor time by all requests, with ÷ without: a busy machine sways it less than a median of few. */
export const cpuOfAllRounds = (rounds: PromiseRounds): number => cpuOfAll(rounds.with) / cpuOfAll(rounds.without)

const show = ({ middle, from, to }: Figure) => `${middle.toFixed(2)} (${from.toFixed(2)} to ${to.toFixed(2)})`

function rowOf(about: string, rounds: PromiseRounds): string[] {
  const errors = [...rounds.with, ...rounds.without].reduce((sum, sample) => sum + errorsOf(sample), 0)
  const rates = ways.map((way) => median(rounds[way].map(({ rps }) => rps)).toFixed(0))
  const each = (['cpu', 'cpuAll', 'rps', 'addedMs'] as const).map((name) => show(promiseCost(rounds, name)))
  return [about, cpuOfAllRounds(rounds).toFixed(2), ...each, ...rates, String(errors)]
}

/** Throws unless exactly one of the two promises. */
async function checkPromise(target: Target, way: Way): Promise<void> {
  const answer = await fetch(target.url, {
    method: 'POST',
    headers: headersOf(target),
    body: JSON.stringify({ model, messages: [{ role: 'user', content: '[[bench n=1 tok=4]] hello' }] }),
  })
  const { svc } = (await answer.json()) as { readonly svc?: { readonly receipt?: object } }
  if ((svc?.receipt === undefined) === (way === 'with'))
    throw new RigError(`the gateway ${way} promises is another one`)
}

/** The order changes from round to round, so that each way comes first equally often. */
const orderOf = (round: number) => (round % 2 === 0 ? ways : ways.toReversed())

async function measureCase(
  rig: Rig,
  targets: Readonly<Record<Way, Target>>,
  { about, load }: (typeof measured)[number],
  options: Options,
): Promise<PromiseRounds> {
  const rounds: Record<Way, Sample[]> = { without: [], with: [] }
  for (let round = 0; round < options.rounds; round++) {
    for (const way of orderOf(round)) {
      const sample = await measure(rig, targets[way], { about, load, columns: [] }, options.secs)
      rounds[way].push(sample)
      process.stderr.write(`${about} ${round + 1} ${way}: ${sample.rps.toFixed(0)}/s ${sample.cpu_us_req} µs\n`)
      await Bun.sleep(settleMs)
    }
  }
  return rounds
}

/** Two gateways that differ in their promises alone, in turns, by one paying customer of each. */
export async function benchPromises(options: Options): Promise<string> {
  try {
    const mock = await startMock(options.pin?.loadCpu ?? null)
    const rig: Rig = { loadgen: build('loadgen'), mock, pin: options.pin }
    const preload = [join(import.meta.dir, 'rig', 'without-promises.ts')]
    const gateways = {
      without: await startPaidGateway(rig, mock.url(1), { preload }),
      with: await startPaidGateway(rig, mock.url(2)),
    }
    const targets = { without: gateways.without.target('paid'), with: gateways.with.target('paid') }
    for (const way of ways) {
      await check(rig, targets[way])
      await checkPromise(targets[way], way)
      process.stderr.write(`${way} is warming up\n`)
      await warmUp(rig, targets[way], options.warmupSecs)
    }
    const rows: string[][] = []
    for (const each of measured) rows.push(rowOf(each.about, await measureCase(rig, targets, each, options)))
    const head = [
      ...['with ÷ without', 'CPU, all rounds', 'CPU', 'with database', 'requests/s', 'added ms, p50'],
      ...['without/s', 'with/s', 'errors'],
    ]
    const load = `${options.rounds} rounds of ${options.secs} s · medians of the ratios of two rounds each, and their quartiles; both gateways, their databases, node and load share the machine`
    const books = await Promise.all(ways.map((way) => proveBooks(gateways[way].admin)))
    return ['## Promises', circumstances(load), markdown(head, rows), books.join(' ')].join('\n\n')
  } finally {
    await stopAll()
  }
}
