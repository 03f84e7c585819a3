import { agentNode, benchGateway, runtimeNode, targetOf } from './agents.ts'
import { type CaseName, cases } from './cases.ts'
import { check, errorsOf, measure, type Rig, type Sample, warmUp } from './measure.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { build, startMock, stopAll } from './rig.ts'
import { markdown } from './table.ts'
import type { Target } from './targets.ts'

/** How the gateway reaches the model server: without an agent, by an agent at its URL, by an agent over its tunnel. */
const wayNames = ['no agent', 'agent, direct', 'agent, tunnel'] as const
type WayName = (typeof wayNames)[number]

/** §22: what the tunnel may add to the p50 of one request on loopback, ms. */
const addedMsGoal = 0.5
const measured: readonly CaseName[] = ['json1', 'json64', 'body100k', 'short']
const settleMs = 150

async function startWays(rig: Rig): Promise<ReadonlyMap<WayName, Target>> {
  const gateway = await benchGateway()
  const ways = new Map<WayName, Target>()
  for (const [at, name] of wayNames.entries()) {
    const url = rig.mock.url(at)
    const node = await (at === 0 ? runtimeNode(gateway, url) : agentNode(gateway, url, name === 'agent, direct'))
    ways.set(name, await targetOf(gateway, node))
  }
  return ways
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

/** Of a whole answer its end, of a stream its first text; ms. */
const p50Ms = (samples: readonly Sample[]): number => median(samples.map(({ lat, ttft }) => (ttft ?? lat).p50)) / 1_000

type Results = ReadonlyMap<WayName, Sample[]>

function rowOf(name: CaseName, results: Results): string[] {
  const at = (way: WayName) => p50Ms(results.get(way) ?? [])
  const [direct, tunnel] = [at('agent, direct'), at('agent, tunnel')]
  const rates = wayNames.slice(1).map((way) => median((results.get(way) ?? []).map(({ rps }) => rps)).toFixed(0))
  /** CPU of the gateway and of the agent: on a busy machine it says more than the times. */
  const costs = wayNames.map((way) => {
    const of = (cost: (sample: Sample) => number | undefined) =>
      median((results.get(way) ?? []).map((sample) => cost(sample) ?? 0)).toFixed(0)
    return `${of((sample) => sample.cpu_us_req)} + ${of((sample) => sample.cpu2_us_req)}`
  })
  const errors = [...results.values()].flat().reduce((sum, sample) => sum + errorsOf(sample), 0)
  return [
    cases[name].about,
    ...wayNames.map((way) => at(way).toFixed(3)),
    (tunnel - direct).toFixed(3),
    (tunnel / direct).toFixed(2),
    ...rates,
    ...costs,
    String(errors),
  ]
}

/** Nobody is always first. */
async function measureCase(rig: Rig, ways: ReadonlyMap<WayName, Target>, name: CaseName, options: Options) {
  const results = new Map<WayName, Sample[]>(wayNames.map((way) => [way, []]))
  for (let round = 0; round < options.rounds; round++) {
    for (const turn of wayNames.keys()) {
      const way = wayNames[(round + turn) % wayNames.length] ?? 'no agent'
      const target = ways.get(way)
      if (target === undefined) continue
      const sample = await measure(rig, target, cases[name], options.secs)
      results.get(way)?.push(sample)
      process.stderr.write(`${name} ${round + 1} ${way}: p50 ${p50Ms([sample]).toFixed(3)} ms\n`)
      await Bun.sleep(settleMs)
    }
  }
  return results
}

export async function compareTunnel(options: Options): Promise<string> {
  const rows: string[][] = []
  let added = Number.NaN
  try {
    const rig: Rig = { loadgen: build('loadgen'), mock: await startMock(null), pin: null }
    const ways = await startWays(rig)
    for (const [name, target] of ways) {
      await check(rig, target)
      process.stderr.write(`${name} is warming up\n`)
      await warmUp(rig, target, options.warmupSecs)
    }
    for (const name of measured.filter((each) => options.cases.includes(each))) {
      const results = await measureCase(rig, ways, name, options)
      if (name === 'json1')
        added = p50Ms(results.get('agent, tunnel') ?? []) - p50Ms(results.get('agent, direct') ?? [])
      rows.push(rowOf(name, results))
    }
  } finally {
    await stopAll()
  }
  const head = [
    'case',
    ...wayNames.map((way) => `${way}: p50 ms`),
    'added ms',
    'tunnel ÷ direct',
    'direct/s',
    'tunnel/s',
    ...wayNames.map((way) => `${way}: CPU µs`),
    'errors',
  ]
  const met = added <= addedMsGoal ? 'met' : 'not met'
  const verdict = Number.isNaN(added)
    ? ''
    : `Added to the p50 of one request: ${added.toFixed(3)} ms; the goal is at most ${addedMsGoal} ms: ${met}.`
  const load = `${options.rounds} rounds of ${options.secs} s; gateway, agents, node and load share the machine`
  return ['## Tunnel', circumstances(load), markdown(head, rows), verdict].join('\n\n')
}
