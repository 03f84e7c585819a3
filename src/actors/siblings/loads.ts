import type { LiveNode } from '../../protocol/wire/admin/inspect.ts'
import type { Loads } from '../../protocol/wire/admin/processes.ts'
import { liveClaims } from '../pool/live-node.ts'

type Loaded = Pick<LiveNode, 'node_id' | 'in_flight' | 'runtimes' | 'usage_claims'>

/** What works for this process, and how soon it answered. */
export function loadsOf(nodes: readonly LiveNode[]): Loads {
  return nodes.flatMap(({ node_id, in_flight, runtimes, usage_claims: { calls, at_bound } }) => {
    const models = runtimes.flatMap((runtime) => runtime.models)
    const busy = models.filter((model) => model.in_flight > 0)
    const measured = models.flatMap(({ model_profile_id: profile, ttft_ewma_ms: ms }) =>
      ms === null ? [] : [[profile, ms]],
    )
    if (in_flight === 0 && measured.length === 0 && calls === 0) return []
    return {
      node_id,
      in_flight,
      models: Object.fromEntries(busy.map((model) => [model.model_profile_id, model.in_flight])),
      ttft_ms: Object.fromEntries(measured),
      ...(calls === 0 ? {} : { usage_claims: { calls, at_bound } }),
    }
  })
}

/** Each process measures what it asked itself; whoever is asked gives the same answer. null: nobody has measured. */
function meanOf(values: readonly (number | null | undefined)[]): number | null {
  const known = values.filter((value) => value !== null && value !== undefined).sort((a, b) => a - b)
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length
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
      models: runtime.models.map((model) => ({
        ...model,
        in_flight: loads.reduce((sum, { models }) => sum + (models[model.model_profile_id] ?? 0), model.in_flight),
        ttft_ewma_ms: meanOf([model.ttft_ewma_ms, ...loads.map(({ ttft_ms: ms }) => ms?.[model.model_profile_id])]),
      })),
    }))
    const in_flight = loads.reduce((sum, load) => sum + load.in_flight, node.in_flight)
    return { ...node, runtimes, in_flight, usage_claims: worstClaims(node.usage_claims, loads) }
  })
}
