import type { LiveNode } from '../../protocol/wire/admin/inspect.ts'
import type { Loads } from '../../protocol/wire/admin/processes.ts'

type Loaded = Pick<LiveNode, 'node_id' | 'in_flight' | 'runtimes'>

/** What works for this process. */
export function loadsOf(nodes: readonly LiveNode[]): Loads {
  return nodes
    .filter(({ in_flight }) => in_flight > 0)
    .map(({ node_id, in_flight, runtimes }) => ({
      node_id,
      in_flight,
      models: Object.fromEntries(
        runtimes.flatMap(({ models }) => models.map((model) => [model.model_profile_id, model.in_flight])),
      ),
    }))
}

/** The same nodes with what the other processes have in flight on them. */
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
      })),
    }))
    return { ...node, runtimes, in_flight: loads.reduce((sum, load) => sum + load.in_flight, node.in_flight) }
  })
}
