import { expect } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { randomFrom } from '../../../bench/conversations.ts'
import type { Fault } from '../../../src/fake-node/faults.ts'
import { OpenAiErrorBody } from '../../../src/protocol/wire/admin/report.ts'
import { ChatCompletion } from '../../../src/protocol/wire/inference/chat.ts'
import { readStream } from '../clients/event-stream.ts'
import {
  answerOf,
  expert,
  type MixtureAnswer,
  type MixtureBody,
  type MixturePool,
  memberNames,
  metricLines,
  type Trace,
} from './mixture-pool.ts'

export interface Storm {
  readonly seed: number
  /** All at once. */
  readonly mixtures: number
  /** Every so often the faults of one machine change, ms. */
  readonly everyMs: number
  /** Machines that never answer are part of it: the mixture's deadline ends them. */
  readonly hangs: boolean
}

export type StormOutcome = 'succeeded' | 'degraded' | 'quorum_not_met' | 'own_nodes_only' | 'left'

const weather: readonly (readonly Fault[])[] = [
  [],
  [],
  [],
  [{ kind: 'status500' }],
  [{ kind: 'status429' }],
  [{ kind: 'jsonErrorBody' }],
  [{ kind: 'malformedLine' }],
  [{ kind: 'dropMidStream' }],
  [{ kind: 'failAfter', ms: 20, as: 'reset' }],
  [{ kind: 'slowHeaders', ms: 80 }],
  [{ kind: 'noUsage' }],
  [{ kind: 'refuse', ms: 150 }],
]
const hanging: readonly Fault[] = [{ kind: 'hang', times: 3 }]

const strategies = ['synthesize', 'vote', 'weighted'] as const
const experts = ['a', 'b', 'c', 'd', 'e', 'nobody-has-it', 'theirs'] as const

function mixtureFrom(random: () => number): MixtureBody {
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T
  const count = 1 + Math.floor(random() * 4)
  return {
    strategy: pick(strategies),
    experts: Array.from({ length: count }, () => expert(pick(experts), 1 + Math.floor(random() * 3))),
    aggregator: { model: pick(['agg', 'agg', 'agg', 'a', 'nobody-has-it']) },
    ...(random() < 0.3 ? { min_experts: 1 + Math.floor(random() * count) } : {}),
  }
}

const quorumOf = ({ strategy, experts: asked, min_experts: least }: MixtureBody) =>
  least ?? (strategy === 'vote' ? Math.ceil(asked.length / 2) : 1)

const texts = new Map(memberNames.map((name) => [name as string, answerOf(name)]))

function checkTrace(mixture: MixtureBody, trace: Trace): number {
  const asked = trace.experts.filter(({ role }) => role === 'expert')
  expect(trace.strategy).toBe(mixture.strategy)
  expect(asked.map(({ model }) => model)).toEqual(mixture.experts.map((one) => (one as { model: string }).model))
  for (const { status, node_id, usage } of trace.experts) {
    expect(['ok', 'no_node', 'upstream_error']).toContain(status)
    if (status === 'ok') expect(node_id).toStartWith('node_')
    if (status === 'no_node') expect([node_id, usage.total_tokens]).toEqual(['', 0])
  }
  return asked.filter(({ status }) => status === 'ok').length
}

/** A success that keeps every promise of the contract. */
function checkSuccess(mixture: MixtureBody, answer: Pick<MixtureAnswer, 'usage' | 'svc'>, content: string) {
  const { mixture: trace } = answer.svc
  expect(checkTrace(mixture, trace)).toBeGreaterThanOrEqual(quorumOf(mixture))
  expect(trace.degraded).toBe(trace.experts.some(({ status }) => status !== 'ok'))
  const survivors = trace.experts.filter(({ status }) => status === 'ok')
  const spoke = trace.experts.find(({ role, status }) => role === 'aggregator' && status === 'ok')
  const speakers = spoke === undefined ? survivors : [spoke]
  expect(speakers.map(({ model }) => texts.get(model))).toContain(content)
  expect(answer.usage.total_tokens).toBe(trace.experts.reduce((sum, { usage }) => sum + usage.total_tokens, 0))
  return trace.degraded ? ('degraded' as const) : ('succeeded' as const)
}

/** Too many of its experts are on other people's machines alone, so that no machine is asked (mixture rule 1). */
const needsTheirs = (mixture: MixtureBody) =>
  mixture.experts.filter((one) => (one as { model: string }).model !== 'theirs').length < quorumOf(mixture)

async function checkRefusal(mixture: MixtureBody, response: Response): Promise<'quorum_not_met' | 'own_nodes_only'> {
  const body = (await response.json()) as { error: { code: string; svc: { mixture: Trace } } }
  expect([...Value.Errors(OpenAiErrorBody, body)]).toEqual([])
  if (needsTheirs(mixture)) {
    expect([response.status, body.error.code]).toEqual([403, 'own_nodes_only'])
    return 'own_nodes_only'
  }
  expect([response.status, body.error.code]).toEqual([503, 'mixture_quorum_not_met'])
  expect(response.headers.get('x-should-retry')).toBe('false')
  expect(checkTrace(mixture, body.error.svc.mixture)).toBeLessThan(quorumOf(mixture))
  return 'quorum_not_met'
}

async function ask(pool: MixturePool, mixture: MixtureBody, stream: boolean, leaveMs: number | null) {
  const leaving = new AbortController()
  const timer = leaveMs === null ? undefined : setTimeout(() => leaving.abort(), leaveMs)
  try {
    const response = await pool.mix(mixture, { body: { stream }, signal: leaving.signal })
    if (response.status !== 200) return await checkRefusal(mixture, response)
    if (stream) {
      const { content, last, done } = await readStream(response)
      expect(done).toBe(true)
      return checkSuccess(mixture, last as unknown as MixtureAnswer, content)
    }
    const answer = (await response.json()) as MixtureAnswer
    expect([...Value.Errors(ChatCompletion, answer)]).toEqual([])
    return checkSuccess(mixture, answer, answer.choices[0]?.message.content ?? '')
  } catch (error) {
    if (leaving.signal.aborted && error instanceof DOMException) return 'left' as const
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** So many mixtures at once while the machines fail at random; every answer is checked. How often each outcome came. */
export async function mixtureStorm(pool: MixturePool, storm: Storm): Promise<Readonly<Record<StormOutcome, number>>> {
  const random = randomFrom(storm.seed)
  const kinds = storm.hangs ? [...weather, hanging, hanging] : weather
  const change = () => {
    const node = pool.nodes[memberNames[Math.floor(random() * memberNames.length)] ?? 'a']
    node.setFaults(...(kinds[Math.floor(random() * kinds.length)] ?? []))
  }
  for (const node of Object.values(pool.nodes)) node.setAnswer({ firstTokenMs: 10 })
  for (const _ of memberNames) change()
  const changing = setInterval(change, storm.everyMs)
  try {
    const asked = Array.from({ length: storm.mixtures }, () => {
      const mixture = mixtureFrom(random)
      const [stream, leaveMs] = [random() < 0.5, random() < 0.1 ? random() * 60 : null]
      return ask(pool, mixture, stream, leaveMs)
    })
    const outcomes = await Promise.all(asked)
    const count = (outcome: StormOutcome) => outcomes.filter((one) => one === outcome).length
    return {
      succeeded: count('succeeded'),
      degraded: count('degraded'),
      quorum_not_met: count('quorum_not_met'),
      own_nodes_only: count('own_nodes_only'),
      left: count('left'),
    }
  } finally {
    clearInterval(changing)
  }
}

/** Nothing is in flight, by the gateway's counters and by the machines' own. */
export async function atRest(pool: MixturePool): Promise<boolean> {
  const [{ nodes }, open, queued] = await Promise.all([
    pool.gateway.admin<{ nodes: readonly { in_flight: number }[] }>('GET', '/v1/admin/nodes'),
    metricLines(pool.gateway, 'svc_requests_in_flight'),
    metricLines(pool.gateway, 'svc_requests_queued'),
  ])
  const served = Object.values(pool.nodes).reduce((sum, node) => sum + node.stats().openRequests, 0)
  return nodes.every(({ in_flight }) => in_flight === 0) && open[''] === 0 && queued[''] === 0 && served === 0
}

/** Every machine takes work again. */
export async function allReady(pool: MixturePool): Promise<boolean> {
  const { nodes } = await pool.gateway.admin<{ nodes: readonly { state: string }[] }>('GET', '/v1/admin/nodes')
  return nodes.every(({ state }) => state === 'ready')
}
