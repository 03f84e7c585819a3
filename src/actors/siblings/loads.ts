import type { FirstToken } from '../../protocol/wire/admin/admin.ts'
import type { LiveNode } from '../../protocol/wire/admin/inspect.ts'
import type { Loads } from '../../protocol/wire/admin/processes.ts'
import { liveClaims } from '../pool/views/live-node.ts'

type Loaded = Pick<LiveNode, 'node_id' | 'in_flight' | 'runtimes' | 'usage_claims'>

/** What works for this process, and what it knows of how soon it answers. */
export function loadsOf(nodes: readonly LiveNode[]): Loads {
  return nodes.flatMap(({ node_id, in_flight, runtimes, usage_claims: { calls, at_bound } }) => {
    const models = runtimes.flatMap((runtime) => runtime.models)
    const busy = models.filter((model) => model.in_flight > 0)
    const measured = models.flatMap(({ model_profile_id: profile, first_token: first }) =>
      first === null ? [] : [[profile, first] as const],
    )
    if (in_flight === 0 && measured.length === 0 && calls === 0) return []
    return {
      node_id,
      in_flight,
      models: Object.fromEntries(busy.map((model) => [model.model_profile_id, model.in_flight])),
      first_tokens: Object.fromEntries(measured),
      ...(calls === 0 ? {} : { usage_claims: { calls, at_bound } }),
    }
  })
}

type Measured = FirstToken | null | undefined

/**
 * The last that any process has timed. Each counts what the database has had at its own last write and what it has measured since: the
 * highest is the latest.
 */
function lastOf(all: readonly Measured[]): FirstToken | null {
  const known = all.filter((first) => first !== null && first !== undefined)
  const [last] = known.toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at))
  return last === undefined ? null : { ...last, of: Math.max(...known.map(({ of }) => of)) }
}

/** Each process knows the last claims that it heard itself. Shown are those of the process with the most at the bound. */
function worstClaims(own: LiveNode['usage_claims'], others: Loads): LiveNode['usage_claims'] {
  const all = others.flatMap(({ usage_claims: told }) => told ?? [])
  const [worst = own] = [own, ...all].sort((a, b) => b.at_bound - a.at_bound || b.calls - a.calls)
  return liveClaims({ calls: worst.calls, atBound: worst.at_bound })
}

/** The same nodes with what the other processes have in flight on them, and have measured. */
export function withLoads<N extends Loaded>(nodes: readonly N[], others: readonly Loads[]): readonly N[] {
  const all = others.flat()
  if (all.length === 0) return nodes
  const byNode = Map.groupBy(all, ({ node_id }) => node_id)
  return nodes.map((node) => {
    const loads = byNode.get(node.node_id)
    if (loads === undefined) return node
    const runtimes = node.runtimes.map((runtime) => ({
      ...runtime,
      models: runtime.models.map((model) => {
        const { model_profile_id: profile, first_token: own, in_flight: here } = model
        const last = lastOf([own, ...loads.map(({ first_tokens: theirs }) => theirs?.[profile])])
        const inFlight = loads.reduce((sum, { models }) => sum + (models[profile] ?? 0), here)
        return { ...model, in_flight: inFlight, first_token: last, ttft_ewma_ms: last?.ms ?? null }
      }),
    }))
    const in_flight = loads.reduce((sum, load) => sum + load.in_flight, node.in_flight)
    return { ...node, runtimes, in_flight, usage_claims: worstClaims(node.usage_claims, loads) }
  })
}
