import type { NodeId } from '../../ids.ts'
import { failureName } from '../../log.ts'
import type { PollResult } from '../../polling/node-watch.ts'
import type { PolledPool } from '../polls/shared-polls.ts'
import type { PoolNode } from './nodes/pool-node.ts'
import type { RouterOptions } from './router-options.ts'
import type { TakenPolls } from './taken-polls.ts'

/** Takes polls of another process of this computer over into the pool. */
export class HeardPolls implements PolledPool {
  constructor(
    private readonly options: Pick<RouterOptions, 'agents' | 'log' | 'random'>,
    private readonly members: ReadonlyMap<NodeId, PoolNode>,
    private readonly taken: TakenPolls,
  ) {}

  knows(nodeId: NodeId): boolean {
    return this.members.has(nodeId)
  }

  take(nodeId: NodeId, way: string, result: PollResult, askedMs: number): boolean {
    const node = this.members.get(nodeId)
    if (node === undefined || node.polls.way !== way) return false
    // The leader's way there leads through this process, which knows more.
    if (result.kind === 'failed' && this.options.agents?.way(nodeId) === 'tunnel') {
      this.poll(nodeId)
      return true
    }
    node.polls.found(result)
    this.taken.take(node, result, askedMs, true).catch((error: unknown) => {
      this.options.log.error('poll_not_taken', { node_id: nodeId, failure: failureName(error) })
    })
    return true
  }

  poll(nodeId: NodeId): void {
    void this.members.get(nodeId)?.watch?.pollNow()
  }

  resume(withinMs: (nodeId: NodeId) => number): void {
    const { random = Math.random } = this.options
    for (const [nodeId, { watch }] of this.members) watch?.resume(random() * withinMs(nodeId))
  }
}
