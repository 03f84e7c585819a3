import type { NodeId } from '../../../ids.ts'
import type { NodeState } from '../../../machines/rules/routing.ts'
import type { NodeHardware } from '../../telemetry/hardware-metrics.ts'
import type { ModelPlace } from '../../telemetry/placement-metrics.ts'
import type { PoolNode } from '../nodes/pool-node.ts'
import { nameOf } from '../nodes/routing-table.ts'
import type { NodeView } from './node-view.ts'

/** The pool in numbers, for metrics. */
export interface PoolCounts {
  readonly nodes: Readonly<Partial<Record<NodeState, number>>>
  readonly inFlight: number
  /** By `nodeName`, of nodes that have any. */
  readonly inFlightByNode: Readonly<Record<string, number>>
  /** By `nodeName`, of nodes that claimed any usage that was paid for. */
  readonly claimsAtBound: Readonly<Record<string, number>>
}

/** What an operator calls it; its id where its name is its address. */
export const nodeName = ({ row }: PoolNode): string => nameOf(row)

export function countsOf(members: ReadonlyMap<NodeId, PoolNode>): PoolCounts {
  const nodes: Partial<Record<NodeState, number>> = {}
  const inFlightByNode: Record<string, number> = {}
  const claimsAtBound: Record<string, number> = {}
  let inFlight = 0
  for (const node of members.values()) {
    nodes[node.state] = (nodes[node.state] ?? 0) + 1
    inFlight += node.calls.size
    if (node.calls.size === 0 && node.claims.calls === 0) continue
    const name = nodeName(node)
    if (node.calls.size > 0) inFlightByNode[name] = (inFlightByNode[name] ?? 0) + node.calls.size
    if (node.claims.calls > 0) claimsAtBound[name] = Math.max(claimsAtBound[name] ?? 0, node.claims.atBound)
  }
  return { nodes, inFlight, inFlightByNode, claimsAtBound }
}

/** Each model on each node, in the order of the nodes. */
export function placesOf(nodes: readonly NodeView[], nameOf: (nodeId: string) => string | null): readonly ModelPlace[] {
  return nodes.flatMap(({ nodeId, runtimes }) => {
    const node = nameOf(nodeId) ?? nodeId
    return runtimes.flatMap(({ models }) =>
      models.map(({ modelId: model, loads, unloads, loadMsSum, cacheEvictions }) => ({
        model,
        node,
        loads,
        unloads,
        loadS: loadMsSum / 1_000,
        cacheEvictions,
      })),
    )
  })
}

/** What agents tell of their computers. Where two share a name, as a host name may be, their numbers stay apart by their ids. */
export function hardwareOf(
  nodes: readonly Pick<NodeView, 'nodeId' | 'hardware'>[],
  nameOf: (nodeId: string) => string | null,
): readonly NodeHardware[] {
  const known = nodes.flatMap(({ nodeId, hardware }) =>
    hardware === null ? [] : [{ nodeId, name: nameOf(nodeId) ?? nodeId, hardware }],
  )
  const times = new Map<string, number>()
  for (const { name } of known) times.set(name, (times.get(name) ?? 0) + 1)
  return known.map(({ nodeId, name, hardware }) => ({
    node: times.get(name) === 1 ? name : `${name} (${nodeId})`,
    hardware,
  }))
}
