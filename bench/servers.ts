import { askStream } from './ask.ts'
import { type ConversationPlan, hold, planConversations } from './conversations.ts'
import { type PlayedServer, playedServers } from './played-server.ts'
import { circumstances } from './results.ts'
import { stopAll } from './rig.ts'
import { startSimulatedNode } from './simulated-node.ts'
import { markdown } from './table.ts'
import { gatewayOn } from './targets.ts'

/** The machines of each kind. Their time runs faster. */
const nodes = 4
const machine = {
  slots: 8,
  prefill: 3_000,
  decode: 40,
  cacheTokens: 120_000,
  speed: Number(process.env.BENCH_SPEED ?? 2),
} as const
const plan: Omit<ConversationPlan, 'rate' | 'models' | 'seed'> = {
  horizonS: Number(process.env.BENCH_HORIZON_S ?? 420),
  turns: 8,
  systems: 24,
  zipf: 1.6,
  systemTokens: 3_000,
  userTokens: 400,
  answerTokens: 300,
  thinkS: 6,
}
/** Conversations that began earlier are not counted: nothing had been learnt. */
const countedFromS = 120
const loads = [
  { name: 'half load', rate: 0.25 },
  { name: 'three quarters', rate: 0.35 },
] as const
const wanted = process.env.BENCH_LOADS?.split(',').map(Number)
const seeds = (process.env.BENCH_SEEDS ?? '1,2,3').split(',').map(Number)
/** 5 s in the time of the machines. */
const pollMs = 5_000 / machine.speed

/** The bench's key may ask for it. */
const modelOf = (plays: PlayedServer) => `other/${plays}`

/** First tokens as clients see them, in seconds of the machines, by kind. All kinds are asked the same at the same moments. */
export async function firstTokensOf(rate: number, seed: number): Promise<ReadonlyMap<PlayedServer, readonly number[]>> {
  const pools = playedServers.flatMap((plays) =>
    Array.from({ length: nodes }, () => startSimulatedNode({ ...machine, plays, model: modelOf(plays) })),
  )
  const gateway = await gatewayOn(
    pools.map(({ url }) => url),
    {
      cpu: null,
      env: {
        SVC_QUEUE_WAIT_MS: '60000',
        SVC_QUEUE_WAITING_MAX: '10000',
        SVC_QUEUE_WAITING_KEY_MAX: '10000',
        SVC_POLL_INTERVAL_MS: String(pollMs),
      },
    },
  )()
  try {
    const held = playedServers.map(async (plays) => {
      const conversations = planConversations({ ...plan, rate, seed, models: [modelOf(plays)] })
      const ask = (...asked: readonly [string, Parameters<typeof askStream>[3], number]) =>
        askStream(gateway.url, gateway.key, ...asked)
      return [plays, await hold(conversations, machine.speed, ask, countedFromS)] as const
    })
    return new Map(await Promise.all(held))
  } finally {
    await gateway.stop()
    for (const node of pools) node.stop()
  }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

/** The same machines, once as each kind of server: what it costs that most kinds tell less than llama.cpp. */
export async function benchServers(): Promise<string> {
  const rows: string[][] = []
  try {
    for (const { name, rate } of loads) {
      if (wanted?.includes(rate) === false) continue
      const runs: Awaited<ReturnType<typeof firstTokensOf>>[] = []
      for (const seed of seeds) {
        process.stderr.write(`${name}, seed ${seed} …\n`)
        runs.push(await firstTokensOf(rate, seed))
      }
      const timesOf = (plays: PlayedServer) => runs.flatMap((run) => run.get(plays) ?? [])
      const told = mean(timesOf('llama.cpp'))
      for (const plays of playedServers) {
        const sorted = timesOf(plays).toSorted((a, b) => a - b)
        const ratios = runs.map((run) => mean(run.get(plays) ?? []) / mean(run.get('llama.cpp') ?? []))
        const p95 = sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN
        const range = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`
        const figures = [mean(sorted).toFixed(3), p95.toFixed(2), (mean(sorted) / told).toFixed(2), range]
        rows.push([name, plays, String(sorted.length), ...figures])
        process.stderr.write(`${rows.at(-1)?.join(' · ')}\n`)
      }
    }
  } finally {
    await stopAll()
  }
  const how = `${nodes} simulated machines of each kind behind one gateway, the same conversations at the same moments, begun ${countedFromS} to ${plan.horizonS} s after the start, ${seeds.length} seeds, time runs ${machine.speed} times as fast`
  const head = ['load', 'server', 'calls', 'first token, mean s', '95th percentile, s', '÷ llama.cpp', 'by seed']
  return ['## Kinds of servers', circumstances(how), markdown(head, rows)].join('\n\n')
}
