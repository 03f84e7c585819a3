import { join } from 'node:path'
import { agentNode, type BenchNode, benchGateway, targetOf } from './agents.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { cpuSeconds, launch, saidBy, startMock, stopAll } from './rig.ts'
import { markdown, median } from './table.ts'
import type { Target } from './targets.ts'

/** Streams of chat by an agent over its tunnel: as ever, sealed, and sealed with padded frames. */
const ways = ['unsealed', 'sealed', 'padded'] as const
type Way = (typeof ways)[number]

/** What a client of `rig/sealed-clients.ts` does. */
export interface ClientPlan {
  readonly way: Way
  readonly url: string
  readonly key: string
  readonly model: string
  /** The node's, base64. */
  readonly keyConfig: string
  /** At once, and how often one after the other. */
  readonly streams: number
  readonly turns: number
  /** Of each stream, one every so many µs. */
  readonly chunks: number
  readonly chunkUs: number
}

export interface ClientReport {
  readonly ok: number
  readonly failed: number
  /** Of all whole answers. */
  readonly bytes: number
  /** Of each whole answer, until its first bytes. */
  readonly firstMs: readonly number[]
}

type Load = Pick<ClientPlan, 'streams' | 'turns' | 'chunks' | 'chunkUs'> & { readonly about: string }
const loads: readonly Load[] = [
  { about: 'one stream of 5 chunks after the other', streams: 1, turns: 150, chunks: 5, chunkUs: 0 },
  { about: '64 streams of 100 chunks, one each 10 ms', streams: 64, turns: 3, chunks: 100, chunkUs: 10_000 },
  { about: '1,000 streams of 30 chunks, one each 500 ms', streams: 1_000, turns: 1, chunks: 30, chunkUs: 500_000 },
]
/** §38: what sealing may add to the first token, ms; what a chunk may cost the gateway as a multiple of an unsealed one, and the agent, µs. */
const goals = { firstMs: 1, gatewayRatio: 1.3, agentUs: 60 } as const

interface Sample extends ClientReport {
  readonly gatewayUs: number
  readonly agentUs: number
}

interface Measured {
  readonly target: Target
  readonly node: BenchNode
  readonly gatewayUrl: string
  readonly keyConfig: string
}

async function measure({ target, node, gatewayUrl, keyConfig }: Measured, way: Way, load: Load): Promise<Sample> {
  const sealedUrl = `${gatewayUrl}/v1/sealed/nodes/${node.nodeId}/chat/completions`
  const { about: _, ...rest } = load
  const url = way === 'unsealed' ? target.url : sealedUrl
  const plan: ClientPlan = { ...rest, way, keyConfig, url, key: target.key, model: target.model }
  const client = launch([process.execPath, join(import.meta.dir, 'rig', 'sealed-clients.ts')], {
    env: { PLAN: JSON.stringify(plan) },
    stdin: true,
  })
  await saidBy(client, /ready/)
  const spent = () => [cpuSeconds(target.pid), node.pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0)] as const
  const [gateway, agent] = spent()
  client.child.stdin?.write('go\n')
  const [, text = ''] = await saidBy(client, /report (.*)\n/)
  const [gatewayAfter, agentAfter] = spent()
  const report = JSON.parse(text) as ClientReport
  const chunks = report.ok * load.chunks
  return {
    ...report,
    gatewayUs: ((gatewayAfter - gateway) * 1e6) / chunks,
    agentUs: ((agentAfter - agent) * 1e6) / chunks,
  }
}

type Samples = Readonly<Record<Way, readonly Sample[]>>

/** The order changes from round to round, so that each way comes first equally often. */
async function rounds(measured: Measured, load: Load, count: number): Promise<Samples> {
  const samples: Record<Way, Sample[]> = { unsealed: [], sealed: [], padded: [] }
  for (let round = 0; round < count; round++) {
    for (const turn of ways.keys()) {
      const way = ways[(round + turn) % ways.length] ?? 'unsealed'
      const sample = await measure(measured, way, load)
      samples[way].push(sample)
      process.stderr.write(
        `${load.about}: ${way} ${sample.gatewayUs.toFixed(1)} + ${sample.agentUs.toFixed(1)} µs a chunk\n`,
      )
    }
  }
  return samples
}

const firstOf = ({ firstMs }: Sample) => median(firstMs)
/** Within each round, then the median. */
const against = (samples: Samples, way: Way, of: (sample: Sample, plain: Sample) => number) =>
  median(samples[way].map((sample, round) => of(sample, samples.unsealed[round] ?? sample)))

/** Two digits: a machine that others use says no more. */
const two = (value: number): string => String(Number(value.toPrecision(2)))

const row = (load: Load, samples: Samples, way: Way): string[] => {
  const own = samples[way]
  const plain = way === 'unsealed'
  const errors = own.reduce((sum, { failed }) => sum + failed, 0)
  return [
    `${load.about}: ${way}`,
    two(median(own.map(firstOf))),
    plain ? '' : two(against(samples, way, (one, other) => firstOf(one) - firstOf(other))),
    two(median(own.map(({ gatewayUs }) => gatewayUs))),
    plain ? '' : two(against(samples, way, (one, other) => one.gatewayUs / other.gatewayUs)),
    two(median(own.map(({ agentUs }) => agentUs))),
    plain ? '' : two(against(samples, way, (one, other) => one.agentUs - other.agentUs)),
    two(median(own.map(({ bytes, ok }) => bytes / (ok * load.chunks)))),
    String(errors),
  ]
}

const head = [
  'streams of chat over a tunnel',
  'first token p50 ms',
  'added ms',
  'gateway CPU µs/chunk',
  '÷ unsealed',
  'agent CPU µs/chunk',
  'added µs',
  'bytes/chunk',
  'errors',
]

/** What a sealed stream costs gateway and agent, against the same stream unsealed. */
export async function benchSealed(options: Options): Promise<string> {
  const rows: string[][] = []
  let verdict = ''
  try {
    const mock = await startMock(null)
    const gateway = await benchGateway()
    const node = await agentNode(gateway, mock.url(0), false)
    const target = await targetOf(gateway, node)
    const response = await fetch(`${gateway.url}/v1/sealed/nodes/${node.nodeId}/.well-known/hpke-keys`, {
      headers: { authorization: `Bearer ${target.key}` },
    })
    const keyConfig = Buffer.from(await response.arrayBuffer()).toString('base64')
    const measured: Measured = { target, node, gatewayUrl: gateway.url, keyConfig }
    const [first, paced] = loads
    if (first === undefined || paced === undefined) throw new Error('no loads')
    for (const way of ways) for (const load of [first, paced]) await measure(measured, way, load)
    for (const load of loads) {
      const samples = await rounds(measured, load, options.rounds)
      rows.push(...ways.map((way) => row(load, samples, way)))
      if (load === first) {
        const added = against(samples, 'sealed', (one, other) => firstOf(one) - firstOf(other))
        verdict += `First token: ${two(added)} ms more; the goal is at most ${goals.firstMs} ms. `
      }
      if (load === paced) {
        const ratio = against(samples, 'sealed', (one, other) => one.gatewayUs / other.gatewayUs)
        const agent = median(samples.sealed.map(({ agentUs }) => agentUs))
        verdict += `A chunk: ${two(ratio)} of an unsealed one at the gateway, at most ${goals.gatewayRatio}; ${two(agent)} µs at the agent, at most ${goals.agentUs}.`
      }
    }
  } finally {
    await stopAll()
  }
  const load = `${options.rounds} rounds after one of warm-up; gateway, agent, node and clients share the machine`
  return ['## Sealed', circumstances(load), markdown(head, rows), verdict].join('\n\n')
}
