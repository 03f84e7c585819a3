import { askStream } from './ask.ts'
import { type Conversation, type ConversationPlan, hold, planConversations } from './conversations.ts'
import { circumstances } from './results.ts'
import { stopAll } from './rig.ts'
import type { SimulatedMemory } from './simulated-memory.ts'
import { type SimulatedNode, type SimulatedNodeOptions, startSimulatedNode } from './simulated-node.ts'
import { markdown } from './table.ts'
import { gatewayOn, model } from './targets.ts'

/** Where the next request goes. `done` once its answer is complete. */
export type Choose = () => { readonly url: string; readonly key: string; done(): void }
export type Strategy = (nodes: readonly SimulatedNode[]) => Choose | Promise<Choose>

export interface Pool {
  readonly nodes: number
  readonly node: Omit<SimulatedNodeOptions, 'model' | 'memory'>
  /** Of the node at this place; absent: each has the one model, always. */
  readonly memory?: (at: number) => SimulatedMemory
}

export interface Outcome {
  /** Share of prompt tokens that the node it came to had in its cache. */
  readonly hitRate: number
  /** Requests of the busiest node ÷ mean. */
  readonly spread: number
  /** As clients saw it; what this computer adds is multiplied by the speed of time. */
  readonly ttftMeanS: number
  readonly ttftP95S: number
  /** As the nodes counted it, from the arrival of a request there. */
  readonly nodeMeanS: number
}

const chatOf = (node: SimulatedNode | undefined) => `${node?.url ?? ''}/v1/chat/completions`

export const roundRobin: Strategy = (nodes) => {
  let next = 0
  return () => ({ url: chatOf(nodes[next++ % nodes.length]), key: 'none', done: () => {} })
}

/** Among equals in turn, as nginx does it: always the first of them would be an affinity of its own. */
export const leastInFlight: Strategy = (nodes) => {
  const inFlight = nodes.map(() => 0)
  let turn = 0
  return () => {
    turn++
    const order = nodes.map((_, at) => (at + turn) % nodes.length)
    const at = order.reduce((best, other) => ((inFlight[other] ?? 0) < (inFlight[best] ?? 0) ? other : best))
    inFlight[at] = (inFlight[at] ?? 0) + 1
    return {
      url: chatOf(nodes[at]),
      key: 'none',
      done: () => {
        inFlight[at] = (inFlight[at] ?? 0) - 1
      },
    }
  }
}

const penstock: Strategy = async (nodes) => {
  const { url, key } = await gatewayOn(
    nodes.map((node) => node.url),
    // The nodes' time runs faster, and so does that of a request that waits for a slot.
    {
      cpu: null,
      env: {
        SVC_QUEUE_WAIT_MS: '60000',
        SVC_QUEUE_WAITING_MAX: '10000',
        SVC_QUEUE_WAITING_KEY_MAX: '10000',
        SVC_POLL_INTERVAL_MS: '500',
      },
    },
  )()
  return () => ({ url, key, done: () => {} })
}

/** The same conversations on nodes with empty caches. */
export async function tryStrategy(
  strategy: Strategy,
  pool: Pool,
  conversations: readonly Conversation[],
): Promise<Outcome> {
  const nodes = Array.from({ length: pool.nodes }, (_, at) =>
    startSimulatedNode({ ...pool.node, model, ...(pool.memory === undefined ? {} : { memory: pool.memory(at) }) }),
  )
  try {
    const choose = await strategy(nodes)
    const times = await hold(conversations, pool.node.speed, async (asked, messages, answerTokens) => {
      const { url, key, done } = choose()
      const answer = await askStream(url, key, asked, messages, answerTokens)
      done()
      return answer
    })
    return outcomeOf(nodes, times)
  } finally {
    for (const node of nodes) node.stop()
  }
}

function outcomeOf(nodes: readonly SimulatedNode[], times: readonly number[]): Outcome {
  const stats = nodes.map((node) => node.stats())
  const sum = (of: (at: (typeof stats)[number]) => number) => stats.reduce((total, at) => total + of(at), 0)
  const mean = (values: readonly number[]) => values.reduce((total, value) => total + value, 0) / values.length
  const sorted = times.toSorted((a, b) => a - b)
  return {
    hitRate: sum((at) => at.cachedTokens) / sum((at) => at.promptTokens),
    spread: (Math.max(...stats.map((at) => at.requests)) * nodes.length) / sum((at) => at.requests),
    ttftMeanS: mean(times),
    ttftP95S: sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN,
    nodeMeanS: mean(stats.flatMap((at) => at.firstTokensS)),
  }
}

/** The machines and the conversations of the simulation in virtual time (`tests/machines/placement/fleet.ts`). */
const pool: Pool = {
  nodes: 8,
  node: { slots: 8, prefill: 3_000, decode: 40, cacheTokens: 120_000, speed: 10 },
}
/** The bench's key may ask for these. */
const four = [model, 'other/two', 'other/three', 'other/four'] as const
/** Half of the nodes hold all four models, the others two at a time; a load takes as long as reading 10 GB from a good disk. */
const halfCold = (at: number): SimulatedMemory => {
  const roomy = at < pool.nodes / 2
  return { models: four, warm: roomy ? 4 : 2, holds: roomy ? 4 : 2, loadS: 10 }
}

const plan: Omit<ConversationPlan, 'rate' | 'models'> = {
  horizonS: Number(process.env.BENCH_HORIZON_S ?? 900),
  turns: 8,
  systems: 24,
  zipf: 1.6,
  systemTokens: 3_000,
  userTokens: 400,
  answerTokens: 300,
  thinkS: 6,
  seed: 1,
}

const strategies: readonly (readonly [string, Strategy])[] = [
  ['round robin', roundRobin],
  ['least in flight', leastInFlight],
  ['Penstock', penstock],
]

interface Load {
  readonly name: string
  /** Conversations a second. Where a blind choice keeps the readers of prompts busier than they can be, its line grows until the end. */
  readonly rate: number
  readonly pool: Pool
  readonly models: readonly string[]
}

const loads: readonly Load[] = [
  { name: 'half load', rate: 0.5, pool, models: [model] },
  { name: 'three quarters', rate: 0.7, pool, models: [model] },
  { name: 'saturated for round robin', rate: 0.9, pool, models: [model] },
  { name: 'four nodes cold for half of the models', rate: 0.4, pool: { ...pool, memory: halfCold }, models: four },
]

async function rowsOf(load: Load): Promise<readonly string[][]> {
  const conversations = planConversations({ ...plan, rate: load.rate, models: load.models })
  const rows: string[][] = []
  for (const [name, strategy] of strategies) {
    process.stderr.write(`${load.name}: ${name} …\n`)
    const { hitRate, spread, ttftMeanS, ttftP95S, nodeMeanS } = await tryStrategy(strategy, load.pool, conversations)
    const times = [ttftMeanS, ttftP95S, nodeMeanS].map((seconds) => seconds.toFixed(2))
    const row = [load.name, name, `${(hitRate * 100).toFixed(0)} %`, spread.toFixed(2), ...times]
    process.stderr.write(`${row.join(' · ')}\n`)
    rows.push(row)
  }
  return rows
}

export async function compareAffinity(): Promise<string> {
  const wanted = process.env.BENCH_LOADS?.split(',').map(Number)
  const rows: string[][] = []
  try {
    for (const load of loads) if (wanted?.includes(load.rate) !== false) rows.push(...(await rowsOf(load)))
  } finally {
    await stopAll()
  }
  const head = [
    'load',
    'choice',
    'cache hits',
    'busiest ÷ mean',
    'TTFT mean s',
    'TTFT p95 s',
    'of it at the node, mean s',
  ]
  const load = `conversations of ${plan.turns} turns on ${plan.systems} system prompts for ${plan.horizonS} s, ${pool.nodes} simulated nodes, time runs ${pool.node.speed} times as fast`
  return ['## Prefix affinity', circumstances(load), markdown(head, rows)].join('\n\n')
}
