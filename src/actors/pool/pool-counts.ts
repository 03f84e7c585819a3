import type { NodeId } from '../../ids.ts'
import type { NodeState } from '../../machines/rules/routing.ts'
import type { PoolNode } from './pool-node.ts'

/** The pool in numbers, for metrics. */
export interface PoolCounts {
  readonly nodes: Readonly<Partial<Record<NodeState, number>>>
  readonly inFlight: number
  /** By `nodeName`, of nodes that have any. */
  readonly inFlightByNode: Readonly<Record<string, number>>
}

/** What an operator calls it; its id where its name is its address. */
export function nodeName({ row: { nodeId, name, url } }: PoolNode): string {
  return url !== null && new URL(url).host === name ? nodeId : name
}

export function countsOf(members: ReadonlyMap<NodeId, PoolNode>): PoolCounts {
  const nodes: Partial<Record<NodeState, number>> = {}
  const inFlightByNode: Record<string, number> = {}
  let inFlight = 0
  for (const node of members.values()) {
    nodes[node.state] = (nodes[node.state] ?? 0) + 1
    inFlight += node.calls.size
    if (node.calls.size === 0) continue
    const name = nodeName(node)
    inFlightByNode[name] = (inFlightByNode[name] ?? 0) + node.calls.size
  }
  return { nodes, inFlight, inFlightByNode }
}
