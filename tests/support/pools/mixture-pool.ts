import { afterAll, afterEach, beforeAll, expect } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { LoggedRequest } from '../../../src/fake-node/node-log.ts'
import { postJson } from '../clients/post-json.ts'
import {
  type CustomerOptions,
  type Launch,
  startTestGateway,
  type TestCustomer,
  type TestGateway,
} from '../gateways/gateway.ts'

/** Each is the one model of a machine of the same name. */
export const memberNames = ['a', 'b', 'c', 'd', 'e', 'agg'] as const
export type MemberName = (typeof memberNames)[number]

/** Stands in every prompt; no refusal may hold it. */
export const secret = 'the-prompt-nobody-may-see'
export const messages = [{ role: 'user', content: secret }] as const

export interface TraceEntry {
  readonly role: 'expert' | 'aggregator'
  readonly model: string
  readonly status: 'ok' | 'no_node' | 'upstream_error' | 'billing_declined' | 'error'
  readonly node_id: string
  readonly usage: { readonly total_tokens: number }
}
export interface Trace {
  readonly strategy: string
  readonly degraded: boolean
  readonly experts: readonly TraceEntry[]
}
export interface MixtureMetadata {
  readonly runtime_id: string
  readonly runtime_kind: string
  readonly latency_ms: number
  readonly ttft_ms: number
  readonly receipt_hash: string
  readonly request_id: string
  readonly usage_estimated?: boolean
  readonly mixture: Trace
}
export interface MixtureAnswer {
  readonly id: string
  readonly object: string
  readonly created: number
  readonly model: string
  readonly choices: readonly {
    readonly index: number
    readonly message: { readonly role: string; readonly content: string | null; readonly tool_calls?: unknown }
    readonly finish_reason: string
  }[]
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number }
  readonly svc: MixtureMetadata
}

export interface MixtureBody {
  readonly strategy: string
  readonly experts: readonly object[]
  readonly aggregator?: object
  readonly min_experts?: number
}

export interface Asked {
  readonly key?: string
  readonly query?: string
  readonly body?: object
  /** Beside `mixture` in `svc`. */
  readonly svc?: object
  readonly signal?: AbortSignal
}

export interface MixturePool {
  readonly gateway: TestGateway
  /** Its policy lets prompts leave to public machines: a mixture must stay at home all the same. */
  readonly customer: TestCustomer
  readonly nodes: Readonly<Record<MemberName, FakeNode>>
  /** The node's id, by the name of its model. */
  nodeId(name: MemberName): string
  /** Another account's public machine that serves every model of the pool, and `theirs`. */
  readonly foreign: FakeNode
  /** A further account whose machines are the same fake nodes. */
  tenant(options: CustomerOptions, names?: readonly MemberName[]): Promise<TestCustomer>
  mix(mixture: unknown, asked?: Asked): Promise<Response>
  /** Fails unless 200. */
  answered(mixture: MixtureBody, asked?: Asked): Promise<MixtureAnswer>
  /** What the machine was sent since the last `reset`. */
  received(name: MemberName): readonly LoggedRequest[]
  bodies(name: MemberName): readonly Readonly<Record<string, unknown>>[]
  /** Calls of every machine since the last `reset`, the silent ones left out. */
  calls(): Readonly<Partial<Record<MemberName | 'foreign', number>>>
  /** Healthy machines with their usual answers, and nothing received yet. */
  reset(): void
  stop(): Promise<void>
}

/** What each machine usually says it used: prompt and completion tokens differ, and no two sums are alike. */
export const usageOf = (name: MemberName) => {
  const at = memberNames.indexOf(name) + 1
  return { prompt_tokens: 100 * at, completion_tokens: at, total_tokens: 101 * at }
}
export function usageSum(...names: readonly MemberName[]): ReturnType<typeof usageOf> {
  const all = names.map(usageOf)
  const sum = (key: keyof ReturnType<typeof usageOf>) => all.reduce((before, usage) => before + usage[key], 0)
  return {
    prompt_tokens: sum('prompt_tokens'),
    completion_tokens: sum('completion_tokens'),
    total_tokens: sum('total_tokens'),
  }
}
/** None stands inside another. */
export const answerOf = (name: MemberName) => `the word of ${name}.`

export const expert = (model: string, weight?: number) => ({ model, ...(weight === undefined ? {} : { weight }) })
export const vote = (...experts: readonly object[]): MixtureBody => ({ strategy: 'vote', experts })
export const weighted = (...experts: readonly object[]): MixtureBody => ({ strategy: 'weighted', experts })
export const synthesize = (...experts: readonly object[]): MixtureBody => ({
  strategy: 'synthesize',
  experts,
  aggregator: { model: 'agg' },
})

export function traceEntry(
  pool: Pick<MixturePool, 'nodeId'>,
  name: MemberName,
  more: Partial<TraceEntry> = {},
): TraceEntry {
  return {
    role: name === 'agg' ? 'aggregator' : 'expert',
    model: name,
    status: 'ok',
    node_id: pool.nodeId(name),
    usage: { total_tokens: usageOf(name).total_tokens },
    ...more,
  }
}
/** Of a call that no machine was found for, or that said nothing of its tokens. */
export const unused = { usage: { total_tokens: 0 } } as const
export const unplaced = (role: 'expert' | 'aggregator', model: string): TraceEntry => ({
  role,
  model,
  status: 'no_node',
  node_id: '',
  ...unused,
})

const usual = (name: MemberName) => ({
  text: answerOf(name),
  usage: usageOf(name),
  chunks: 5,
  firstTokenMs: 0,
  intervalMs: 0,
  reasoning: null,
  finishReason: 'stop',
  toolCalls: 'auto' as const,
})

export async function startMixturePool(
  env: Readonly<Record<string, string>> = {},
  launch?: Launch,
): Promise<MixturePool> {
  const gateway = await startTestGateway({
    ...(launch === undefined ? {} : { launch }),
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_RECEIPT_FLUSH_MS: '5', SVC_METRICS_PUBLIC: 'true', ...env },
  })
  const abroad = { min_privacy_class: 'public' } as const
  const customer = await gateway.customer({ policy: abroad, keyPolicy: abroad })
  const other = await gateway.customer()
  const made = memberNames.map((name) => [name, startFakeNode({ models: [name], answer: usual(name) })] as const)
  const nodes = Object.fromEntries(made) as Record<MemberName, FakeNode>
  const foreign = startFakeNode({ models: [...memberNames, 'theirs'] })
  const ids = new Map<string, string>()
  await Promise.all([
    ...made.map(async ([name, { url }]) => {
      ids.set(name, await gateway.node(url, { customerId: customer.customerId }))
    }),
    gateway.node(foreign.url, { customerId: other.customerId, visibility: 'public', privacyClass: 'public' }),
  ])
  const everyone = [...made, ['foreign', foreign] as const]
  const seen = new Map<string, number>()
  const received = (name: MemberName | 'foreign') => {
    const node = name === 'foreign' ? foreign : nodes[name]
    return node.requests.filter(({ serial }) => serial > (seen.get(name) ?? 0))
  }
  const mix: MixturePool['mix'] = (mixture, { key = customer.key, query = '', body = {}, svc = {}, signal } = {}) =>
    postJson(
      `${gateway.url}/v1/api/chat/completions${query}`,
      key,
      { model: 'council', messages, ...body, svc: { mixture, ...svc } },
      { ...(signal === undefined ? {} : { signal }) },
    )
  return {
    gateway,
    customer,
    nodes,
    foreign,
    nodeId: (name) => ids.get(name) ?? '',
    tenant: async (options, names = memberNames) => {
      const tenant = await gateway.customer(options)
      await Promise.all(names.map((name) => gateway.node(nodes[name].url, { customerId: tenant.customerId })))
      return tenant
    },
    mix,
    answered: async (mixture, asked) => {
      const response = await mix(mixture, asked)
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
      return JSON.parse(text) as MixtureAnswer
    },
    received,
    bodies: (name) => received(name).map(({ body }) => body as Record<string, unknown>),
    calls: () =>
      Object.fromEntries(
        everyone.map(([name]) => [name, received(name).length] as const).filter(([, count]) => count > 0),
      ),
    reset: () => {
      for (const [name, node] of made) {
        node.clearFaults()
        node.setAnswer(usual(name))
      }
      foreign.clearFaults()
      for (const [name, node] of everyone) seen.set(name, node.stats().requests)
    },
    stop: async () => {
      for (const [, node] of everyone) node.stop()
      await gateway.stop()
    },
  }
}

/**
 * One pool for all tests of a file, handed to `started`: each test finds it healthy and unasked, and ends with the
 * proof that no sub-call has left the caller's own machines.
 */
export function shareMixturePool(
  started: (pool: MixturePool) => void,
  env: Readonly<Record<string, string>> = {},
): void {
  let pool: MixturePool
  beforeAll(async () => {
    pool = await startMixturePool(env)
    started(pool)
  })
  afterEach(() => {
    expectHome(pool)
    pool.reset()
  })
  afterAll(() => pool.stop())
}

/** No sub-call ever leaves the caller's own machines. */
export function expectHome(pool: MixturePool): void {
  expect(pool.calls().foreign).toBeUndefined()
}

/** All lines of `/metrics` of one name, labels to value. */
export async function metricLines(gateway: TestGateway, name: string): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(name) && !line.startsWith('#'))
  return Object.fromEntries(
    lines.map((line) => [line.slice(name.length, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  )
}
