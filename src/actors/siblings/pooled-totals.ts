import { Totals } from '../../protocol/wire/admin/processes.ts'
import type { ChatTotals } from '../telemetry/metrics.ts'
import type { Siblings } from './siblings.ts'

type Model = ChatTotals['models'] extends ReadonlyMap<string, infer M> ? M : never

/** Processes of which the last answer is kept, the others' next one is their first. */
const rememberedMax = 256

/** On the wire. */
export function totalsOnWire(process: string, totals: ChatTotals): Totals {
  return {
    process,
    up_ms: performance.now(),
    requests: totals.requests,
    errors: { ...totals.errors },
    upstream_failures: { ...totals.upstreamFailures },
    mixtures: [...totals.mixtures],
    models: [...totals.models].map(([model, { requests, ttft, perToken, tokensIn, tokensOut }]) => ({
      model,
      requests,
      ttft: [...ttft],
      per_token: [...perToken],
      tokens_in: tokensIn,
      tokens_out: tokensOut,
    })),
    in_flight: totals.inFlight,
    queued: totals.queued,
  }
}

type Counts = Readonly<Record<string, number>>

function sumOf(all: readonly Counts[]): Counts {
  const sum: Record<string, number> = {}
  for (const counts of all) for (const [name, count] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + count
  return sum
}

const addArrays = (a: readonly number[] | Float64Array, b: readonly number[] | Float64Array) =>
  Float64Array.from({ length: Math.max(a.length, b.length) }, (_, at) => (a[at] ?? 0) + (b[at] ?? 0))

function modelsOf(all: readonly Totals[]): ReadonlyMap<string, Model> {
  const sum = new Map<string, Model>()
  for (const one of all.flatMap(({ models }) => models)) {
    const known = sum.get(one.model)
    sum.set(one.model, {
      requests: (known?.requests ?? 0) + one.requests,
      ttft: addArrays(known?.ttft ?? [], one.ttft),
      perToken: addArrays(known?.perToken ?? [], one.per_token),
      tokensIn: (known?.tokensIn ?? 0) + one.tokens_in,
      tokensOut: (known?.tokensOut ?? 0) + one.tokens_out,
    })
  }
  return sum
}

function mixturesOf(all: readonly Totals[]): ChatTotals['mixtures'] {
  const key = ({ strategy, outcome }: { strategy: string; outcome: string }) => `${strategy}\n${outcome}`
  const counts = sumOf(all.flatMap(({ mixtures }) => mixtures.map((one) => ({ [key(one)]: one.count }))))
  return Object.entries(counts).map(([text, count]) => {
    const [strategy = '', outcome = ''] = text.split('\n')
    return { strategy, outcome, count }
  })
}

const less = (now: Counts, before: Counts) =>
  Object.fromEntries(Object.entries(now).map(([name, count]) => [name, count - (before[name] ?? 0)]))
const lessEach = (now: readonly number[], before: readonly number[] = []) =>
  now.map((count, at) => count - (before[at] ?? 0))

/** What one process has counted between two answers. */
function riseOf(now: Totals, before: Totals): Totals {
  const known = new Map(before.models.map((model) => [model.model, model]))
  const outcomes = new Map(before.mixtures.map(({ strategy, outcome, count }) => [`${strategy}\n${outcome}`, count]))
  return {
    ...now,
    requests: now.requests - before.requests,
    errors: less(now.errors, before.errors),
    upstream_failures: less(now.upstream_failures, before.upstream_failures),
    mixtures: now.mixtures.map(({ strategy, outcome, count }) => ({
      ...{ strategy, outcome },
      count: count - (outcomes.get(`${strategy}\n${outcome}`) ?? 0),
    })),
    models: now.models.map(({ model, requests, ttft, per_token, tokens_in, tokens_out }) => {
      const last = known.get(model)
      return {
        model,
        requests: requests - (last?.requests ?? 0),
        ttft: lessEach(ttft, last?.ttft),
        per_token: lessEach(per_token, last?.per_token),
        tokens_in: tokens_in - (last?.tokens_in ?? 0),
        tokens_out: tokens_out - (last?.tokens_out ?? 0),
      }
    }),
  }
}

/**
 * What all processes have counted since the first reading. It never falls: each adds what it has counted since its last
 * answer. The first answer of one that ran before adds nothing: its whole life would be one step of the traffic.
 */
export function pooledTotals(own: () => Promise<ChatTotals>, siblings: Siblings): () => Promise<ChatTotals> {
  if (siblings.index === null) return own
  const last = new Map<string, Totals>()
  let sum: ChatTotals | null = null
  let readMs = performance.now()
  return async () => {
    const [mine, answers] = await Promise.all([own(), siblings.ask('totals', {}, Totals)])
    const stepMs = performance.now() - readMs
    readMs += stepMs
    const now = [totalsOnWire(siblings.name, mine), ...answers]
    const rises = now.flatMap((one) => {
      const before = last.get(one.process)
      if (before !== undefined) return riseOf(one, before)
      return sum !== null && (one.up_ms ?? Number.POSITIVE_INFINITY) <= stepMs ? one : []
    })
    for (const one of now) {
      last.delete(one.process)
      last.set(one.process, one)
    }
    for (const [oldest] of [...last].slice(0, Math.max(0, last.size - rememberedMax))) last.delete(oldest)
    const all = sum === null ? [] : [totalsOnWire('', sum), ...rises]
    sum = {
      requests: all.reduce((total, { requests }) => total + requests, 0),
      errors: sumOf(all.map(({ errors }) => errors)),
      upstreamFailures: sumOf(all.map(({ upstream_failures }) => upstream_failures)),
      mixtures: mixturesOf(all),
      models: modelsOf(all),
      inFlight: now.reduce((total, { in_flight }) => total + in_flight, 0),
      queued: now.reduce((total, { queued }) => total + queued, 0),
    }
    return sum
  }
}
