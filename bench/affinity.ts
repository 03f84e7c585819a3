import { askStream } from './ask.ts'
import { type Conversation, type ConversationPlan, hold, planConversations } from './conversations.ts'
import { circumstances } from './results.ts'
import { stopAll } from './rig.ts'
import { type SimulatedNode, type SimulatedNodeOptions, startSimulatedNode } from './simulated-node.ts'
import { markdown } from './table.ts'
import { gatewayOn, model } from './targets.ts'

/** Where the next request goes. `done` once its answer is complete. */
export type Choose = () => { readonly url: string; readonly key: string; done(): void }
export type Strategy = (nodes: readonly SimulatedNode[]) => Choose | Promise<Choose>

export interface Pool {
  readonly nodes: number
  readonly node: Omit<SimulatedNodeOptions, 'model'>
}

export interface Outcome {
  /** Share of prompt tokens that the node it came to had in its cache. */
  readonly hitRate: number
  /** Requests of the busiest node ÷ mean. */
  readonly spread: number
  readonly ttftMeanMs: number
  readonly ttftP95Ms: number
  /** Share of the time in which a node was reading a prompt. */
  readonly busy: number
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
    { cpu: null },
  )()
  return () => ({ url, key, done: () => {} })
}

/** The same conversations on nodes with empty caches. */
export async function tryStrategy(
  strategy: Strategy,
  pool: Pool,
  conversations: readonly Conversation[],
): Promise<Outcome> {
  const nodes = Array.from({ length: pool.nodes }, () => startSimulatedNode({ ...pool.node, model }))
  try {
    const choose = await strategy(nodes)
    const beganMs = performance.now()
    const times = await hold(conversations, async (messages) => {
      const { url, key, done } = choose()
      const answer = await askStream(url, key, messages)
      done()
      return answer
    })
    return outcomeOf(nodes, times, performance.now() - beganMs)
  } finally {
    for (const node of nodes) node.stop()
  }
}

function outcomeOf(nodes: readonly SimulatedNode[], times: readonly number[], tookMs: number): Outcome {
  const stats = nodes.map((node) => node.stats())
  const sum = (of: (at: (typeof stats)[number]) => number) => stats.reduce((total, at) => total + of(at), 0)
  const sorted = times.toSorted((a, b) => a - b)
  return {
    hitRate: sum((at) => at.cachedTokens) / sum((at) => at.promptTokens),
    spread: (Math.max(...stats.map((at) => at.requests)) * nodes.length) / sum((at) => at.requests),
    ttftMeanMs: times.reduce((total, ms) => total + ms, 0) / times.length,
    ttftP95Ms: sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN,
    busy: sum((at) => at.prefillMs) / (nodes.length * tookMs),
  }
}

/** Ten times as fast as a machine that reads 700 tokens/s, writes 30/s and keeps the prompts of 12 conversations. */
const pool: Pool = {
  nodes: 8,
  node: {
    slots: 4,
    kv: { msPerPromptToken: 0.14, cachedMsPerToken: 0.001, capacityPrompts: 12 },
    msPerWord: 3.3,
    replyWords: 60,
  },
}
const plan: ConversationPlan = {
  conversations: 96,
  turns: 6,
  systemPrompts: 12,
  systemWords: 900,
  userWords: 120,
  withinMs: 4_000,
  thinkMs: 300,
  seed: 1,
}

const strategies: readonly (readonly [string, Strategy])[] = [
  ['round robin', roundRobin],
  ['least in flight', leastInFlight],
  ['Penstock', penstock],
]

/** The same conversations in less time: what a blind choice keeps the readers of prompts busy with. */
const loads: readonly (readonly [string, number])[] = [
  ['half load', 12_000],
  ['three quarters', 7_000],
  ['saturated for round robin', 3_000],
]

async function rowsOf(load: string, withinMs: number): Promise<readonly string[][]> {
  const conversations = planConversations({ ...plan, withinMs })
  const rows: string[][] = []
  for (const [name, strategy] of strategies) {
    process.stderr.write(`${load}: ${name} …\n`)
    const { hitRate, spread, ttftMeanMs, ttftP95Ms, busy } = await tryStrategy(strategy, pool, conversations)
    const percent = (share: number) => `${(share * 100).toFixed(0)} %`
    const times = [ttftMeanMs.toFixed(0), ttftP95Ms.toFixed(0)]
    rows.push([load, name, percent(hitRate), spread.toFixed(2), ...times, percent(busy)])
  }
  return rows
}

export async function compareAffinity(): Promise<string> {
  const rows: string[][] = []
  try {
    for (const [load, withinMs] of loads) rows.push(...(await rowsOf(load, withinMs)))
  } finally {
    await stopAll()
  }
  const head = ['load', 'choice', 'cache hits', 'busiest ÷ mean', 'TTFT mean ms', 'TTFT p95 ms', 'reading prompts']
  const load = `${plan.conversations} conversations of ${plan.turns} turns on ${plan.systemPrompts} system prompts, ${pool.nodes} simulated nodes, time runs 10 times as fast`
  return ['## Prefix affinity', circumstances(load), markdown(head, rows)].join('\n\n')
}
