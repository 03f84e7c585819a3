import { type ActorRefFrom, createActor, waitFor } from 'xstate'
import type { NodeId } from '../../ids.ts'
import { routerMachine } from '../../machines/charts/router.ts'
import { observeErrors } from '../telemetry/inspect.ts'
import { probingMaxMs, type RouterOptions } from './router-options.ts'

/** The first polls of a start, and the pool's chart: the start is done when each node has answered or failed once (§8). */
export class FirstRound {
  private readonly actor: ActorRefFrom<typeof routerMachine>
  /** Nodes that have not answered or failed their first poll. */
  private readonly unprobed = new Set<NodeId>()

  constructor({ config, inspect, log }: Pick<RouterOptions, 'config' | 'inspect' | 'log'>) {
    const input = { probingMaxMs: probingMaxMs(config) }
    this.actor = createActor(routerMachine, { id: 'router', input, inspect })
    observeErrors(this.actor, log)
    this.actor.start()
  }

  get isUnderWay(): boolean {
    return this.actor.getSnapshot().matches('probing')
  }

  added(nodeId: NodeId): void {
    this.unprobed.add(nodeId)
    this.actor.send({ type: 'node.added' })
  }

  removed(nodeId: NodeId): void {
    if (this.unprobed.delete(nodeId)) this.actor.send({ type: 'node.removed' })
  }

  /** The node answered a poll, or failed it, or has no way that leads to it. */
  probed(nodeId: NodeId): void {
    if (this.unprobed.delete(nodeId)) this.actor.send({ type: 'node.probed' })
  }

  /** All rows of a read were added. */
  rowsRead(): void {
    this.actor.send({ type: 'rows.read' })
  }

  /** Resolves when each node of the first rows has answered or failed once, or after a bound. */
  async whenOver(): Promise<void> {
    await waitFor(this.actor, (pool) => !pool.matches('probing'))
  }

  stop(): void {
    this.actor.send({ type: 'stop.asked' })
  }
}
