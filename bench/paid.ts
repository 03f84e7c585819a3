import { join } from 'node:path'
import { type Case, type CaseName, cases } from './cases.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { build, descendants, RigError, startMock, stopAll, temporaryFolder, until } from './rig.ts'
import { markdown, median } from './table.ts'
import { type Admin, adminOf, model, ordinary, startGateway, type Target } from './targets.ts'

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

const ways = ['free', 'paid'] as const
type Way = (typeof ways)[number]

/** More than any bench spends; a price per token that is no round number. */
const creditWei = (10n ** 30n).toString()
const prices = { prompt_token_price_wei: '17', completion_token_price_wei: '1003' }

/** Its keys let prompts leave for machines of others. */
async function customer(admin: Admin, name: string): Promise<{ readonly id: string; readonly key: string }> {
  const leaves = { min_privacy_class: 'public' }
  const { customer_id: id } = await admin<{ readonly customer_id: string }>('POST', '/customers', {
    display_name: name,
    gateway_policy: leaves,
  })
  const body = { name, model_policy: leaves }
  const made = await admin<{ readonly gateway_key: string }>('POST', `/customers/${id}/keys`, body)
  return { id, key: made.gateway_key }
}

/** One gateway, one public node: its owner's requests are free, the other customer's are paid, all of them from one account. */
async function start(rig: Rig, node: string): Promise<{ readonly admin: Admin; target(way: Way): Target }> {
  const folder = temporaryFolder()
  const data = join(folder, 'data')
  const { program, url } = await startGateway(data, join(folder, 'gateway.log'), rig.pin?.proxyCpu ?? null)
  const admin = adminOf(url, join(data, 'credentials.json'))
  const [owner, payer] = [await customer(admin, 'owner'), await customer(admin, 'payer')]
  const offered = { visibility: 'public', privacy_class: 'public', node_class: 'gpu' }
  await admin('POST', '/nodes', { customer_id: owner.id, url: node, ...offered })
  await admin('PUT', '/models', { id: model, ...prices })
  await admin('POST', `/customers/${payer.id}/credits`, { amount_wei: creditWei })
  await until('the node to be ready', async () => {
    const { nodes } = await admin<{ readonly nodes: readonly { readonly state: string }[] }>('GET', '/nodes')
    return nodes.every(({ state }) => state === 'ready')
  })
  const keys: Readonly<Record<Way, string>> = { free: owner.key, paid: payer.key }
  const target = (way: Way): Target => ({
    name: 'Penstock',
    url: `${url}/v1/api/chat/completions`,
    key: keys[way],
    pid: program.pid,
    ...ordinary,
    sidePids: () => descendants(program.pid),
    stop: program.stop,
  })
  return { admin, target }
}

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

/** Throws unless the books balance and something was paid. */
async function proveBooks(admin: Admin): Promise<string> {
  const proof = await admin<{ readonly balanced: boolean; readonly debits_wei: string; readonly entries: number }>(
    'GET',
    '/ledger/proof',
  )
  if (!proof.balanced || proof.debits_wei === '0') throw new RigError('the books do not balance, or nothing was paid')
  return `The books balance: ${proof.entries} entries.`
}

/** Paid chat against free chat, through one gateway to one node. */
export async function comparePaid(options: Options): Promise<string> {
  try {
    const rig: Rig = {
      loadgen: build('loadgen'),
      mock: await startMock(options.pin?.loadCpu ?? null),
      pin: options.pin,
    }
    const { admin, target } = await start(rig, rig.mock.url(2))
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
