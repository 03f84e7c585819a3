import type { NodeId } from '../../../ids.ts'
import type { CacheViews } from '../../../machines/placement/cache-views.ts'
import type { NodeState } from '../../../machines/rules/routing.ts'
import type { PoolNode } from '../nodes/pool-node.ts'
import type { Catalogue } from '../nodes/routing-table.ts'
import { type NodeView, viewOf } from './node-view.ts'
import { countsOf, nodeName, type PoolCounts } from './pool-counts.ts'

const answering: ReadonlySet<NodeState> = new Set(['ready', 'live', 'draining'])

export interface ViewedPool {
  readonly members: ReadonlyMap<NodeId, PoolNode>
  readonly caches: CacheViews
  catalogue(): Catalogue
  /** How requests reach a node now; null: they do not. */
  wayTo(node: PoolNode): NodeView['transport']
}

/** The pool as it is now, for its owner, for jobs and for metrics. */
export class PoolViews {
  constructor(private readonly pool: ViewedPool) {}

  all(): readonly NodeView[] {
    return [...this.pool.members.values()].map((node) => this.view(node))
  }

  /** null: unknown. */
  one(nodeId: NodeId): NodeView | null {
    const node = this.pool.members.get(nodeId)
    return node === undefined ? null : this.view(node)
  }

  /** Those that answer. A view of each would cost a hundred times as much, and jobs ask every second. */
  *reachable(): Generator<{ readonly nodeId: NodeId; readonly drained: boolean }> {
    for (const { row, state, transport } of this.pool.members.values()) {
      if (transport === null || !answering.has(state)) continue
      yield { nodeId: row.nodeId, drained: row.adminState === 'draining' }
    }
  }

  /** What an operator calls it. null: unknown. */
  name(nodeId: string): string | null {
    const node = this.pool.members.get(nodeId as NodeId)
    return node === undefined ? null : nodeName(node)
  }

  counts(): PoolCounts {
    return countsOf(this.pool.members)
  }

  private view(node: PoolNode): NodeView {
    const { caches } = this.pool
    return viewOf(node, { catalogue: this.pool.catalogue(), caches, way: this.pool.wayTo(node) })
  }
}
