import { Totals } from '../../protocol/wire/admin/processes.ts'
import type { ChatTotals } from '../telemetry/metrics.ts'
import type { Siblings } from './siblings.ts'

type Model = ChatTotals['models'] extends ReadonlyMap<string, infer M> ? M : never

/** Processes that have ended, whose counts stay. Beyond them the oldest are forgotten, and a point of the traffic is short. */
const rememberedMax = 256

/** On the wire. */
export function totalsOnWire(process: string, totals: ChatTotals): Totals {
  return {
    process,
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

/** The counts of all processes. They never fall: what a process counted before it ended stays. */
export function pooledTotals(own: () => Promise<ChatTotals>, siblings: Siblings): () => Promise<ChatTotals> {
  if (siblings.index === null) return own
  const last = new Map<string, Totals>()
  return async () => {
    const [mine, answers] = await Promise.all([own(), siblings.ask('totals', {}, Totals)])
    const now = [totalsOnWire(siblings.name, mine), ...answers]
    for (const one of now) {
      last.delete(one.process)
      last.set(one.process, one)
    }
    for (const [oldest] of [...last].slice(0, Math.max(0, last.size - rememberedMax))) last.delete(oldest)
    const all = [...last.values()]
    return {
      requests: all.reduce((sum, { requests }) => sum + requests, 0),
      errors: sumOf(all.map(({ errors }) => errors)),
      upstreamFailures: sumOf(all.map(({ upstream_failures }) => upstream_failures)),
      mixtures: mixturesOf(all),
      models: modelsOf(all),
      inFlight: now.reduce((sum, { in_flight }) => sum + in_flight, 0),
      queued: now.reduce((sum, { queued }) => sum + queued, 0),
    }
  }
}
