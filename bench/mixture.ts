import { join } from 'node:path'
import { circumstances } from './results.ts'
import { launch, root, saidBy, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import { gatewayOn } from './targets.ts'

/** Time each expert takes to answer, ms. The key of the bench allows models below `other/`. */
const expertsMs: readonly number[] = [100, 150, 200]
const modelOf = (ms: number) => `other/expert-${ms}`
const aggregator = 'other/aggregator'
const slowestMs = Math.max(...expertsMs)
/** Over the slowest expert, asked by itself and without a gateway. */
const overheadMsMax = 5

export const mixtureRounds = 50
/** With experts that answer at once: a gateway that has just started runs code that nobody has compiled yet. */
const warmupRounds = 300

/** One request and the time to its last byte. */
export type TimedAsk = () => Promise<number>

export interface MixtureTimes {
  readonly name: string
  /** To the last byte, in the order of the rounds, ms. */
  readonly times: readonly number[]
}

/** All ways in turn, round after round, each round beginning with another: what disturbs a round disturbs all of them. */
export async function timeRounds(
  ways: Readonly<Record<string, TimedAsk>>,
  rounds: number,
): Promise<readonly MixtureTimes[]> {
  const entries = Object.entries(ways)
  const times = new Map<string, number[]>(entries.map(([name]) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    const first = round % entries.length
    for (const [name, ask] of [...entries.slice(first), ...entries.slice(0, first)]) times.get(name)?.push(await ask())
  }
  return entries.map(([name]) => ({ name, times: times.get(name) ?? [] }))
}

/** A request that must be answered with 200; ms to its last byte. */
export async function timedAsk(url: string, key: string, body: object): Promise<number> {
  const askedMs = performance.now()
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${url} answered ${response.status}: ${text}`)
  return performance.now() - askedMs
}

/** A fake node in a process of its own; it answers at once. */
async function startExpert(model: string): Promise<string> {
  const command = [process.execPath, join(root, 'src', 'cli', 'main.ts'), 'fake-node', '--model', model, '--json']
  const said = await saidBy(launch(command), /"url":"(http[^"]+)"/)
  return said[1] ?? ''
}

/** From now on an answer takes so long. */
async function slowDown(url: string, ms: number): Promise<void> {
  const { status } = await fetch(`${url}/answer`, { method: 'POST', body: JSON.stringify({ firstTokenMs: ms }) })
  if (status !== 200) throw new Error(`the expert answered ${status}`)
}

const messages = [{ role: 'user', content: 'How far is it?' }]
const strategies = ['vote', 'weighted', 'synthesize'] as const

/** The rows of the table: the first is the slowest expert by itself, from which the overhead counts. */
export function mixtureTable(timed: readonly MixtureTimes[]): string {
  const base = median(timed[0]?.times ?? [])
  const rows = timed.map(({ name, times }, at) => {
    const sorted = times.toSorted((a, b) => a - b)
    const p95 = sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN
    const over = median(times) - base
    const met = over <= overheadMsMax ? 'yes' : '**no**'
    return [name, median(times).toFixed(2), p95.toFixed(2), ...(at === 0 ? ['', ''] : [over.toFixed(2), met])]
  })
  const head = ['', 'median ms', 'p95 ms', 'over the slowest ms', `≤ ${overheadMsMax} ms`]
  return markdown(head, rows)
}

export async function benchMixture(): Promise<string> {
  try {
    const slow = await Promise.all(expertsMs.map((ms) => startExpert(modelOf(ms))))
    const { url, key } = await gatewayOn([...slow, await startExpert(aggregator)], { cpu: null })()
    const slowest = { model: modelOf(slowestMs), messages }
    const experts = expertsMs.map((ms) => ({ model: modelOf(ms) }))
    const direct = `${slow[expertsMs.indexOf(slowestMs)] ?? ''}/v1/chat/completions`
    const mixed = (strategy: string) => () => {
      const mixture = { strategy, experts, aggregator: { model: aggregator } }
      return timedAsk(url, key, { model: 'council', messages, svc: { mixture } })
    }
    const ways = {
      [`the expert of ${slowestMs} ms alone, direct`]: () => timedAsk(direct, 'none', slowest),
      'the same through Penstock': () => timedAsk(url, key, slowest),
      ...Object.fromEntries(strategies.map((strategy) => [strategy, mixed(strategy)])),
    }
    process.stderr.write('warming up …\n')
    await timeRounds(ways, warmupRounds)
    for (const [at, ms] of expertsMs.entries()) await slowDown(slow[at] ?? '', ms)
    process.stderr.write(`${mixtureRounds} rounds …\n`)
    const timed = await timeRounds(ways, mixtureRounds)
    const load = `experts of ${expertsMs.join(', ')} ms on a machine each, an aggregator that answers at once, ${mixtureRounds} rounds, one request at a time`
    return ['## Mixtures', circumstances(load), mixtureTable(timed)].join('\n\n')
  } finally {
    await stopAll()
  }
}
