import type { Database } from '../../db/client.ts'
import { liftWakePause, setSleep } from '../../db/queries/pool/sleeping.ts'
import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { NodeId } from '../../ids.ts'
import { probeBytesMax } from '../../polling/runtime-probe.ts'
import { nodeSleepPath } from '../../protocol/wire/nodes/agent.ts'
import type { Config } from '../../settings/config.ts'
import { secondMs } from '../../time.ts'
import { TransportError } from '../../transport/transport.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import type { PoolNode } from '../pool/nodes/pool-node.ts'
import type { NodeRecord, PoolReads } from '../pool/pool-admin.ts'
import type { PoolRouter } from '../pool/pool-router.ts'
import type { Waker } from './waker.ts'

export interface NodeSleepsOptions {
  readonly config: Pick<Config, 'SVC_WAKE_WAIT_MS'>
  readonly db: Database
  readonly trail: AuditTrail
  readonly pool: PoolReads
  readonly router: PoolRouter
  readonly waker: Waker
  /** See `ChangeFeed.changedHere`; its promise is awaited. */
  readonly changedHere: (topic: 'nodes') => unknown
}

/** How long the answer waits until the routing table follows, ms. */
const tableWaitMs = 2 * secondMs
/** An agent only takes note of the order, ms. */
const agentMs = 10 * secondMs

const refused = (detail: string) => new Problem('invalid_state', { detail })

/** Operators send nodes to sleep and wake them (§39). Both may be repeated. */
export class NodeSleeps {
  constructor(private readonly options: NodeSleepsOptions) {}

  /**
   * An agent that was started with a command for it suspends its computer. Of any other node the gateway takes the operator's word:
   * its silence is no failure from now on. Refuses with `node_not_found`, and `invalid_state` while anything runs there.
   */
  async sleep(audit: AuditContext, nodeId: string): Promise<NodeRecord> {
    const { db, trail, pool, router } = this.options
    const row = await pool.node(nodeId)
    const node = router.pooled(row.nodeId)
    if (node === null) throw refused('An operator has revoked this node')
    if (node.state === 'asleep') return row
    if (node.power?.suspends === true) {
      await db.transaction((tx) => trail.record(tx, audit, { targetId: row.nodeId }))
      await this.suspend(node)
      await router.pollNow(row.nodeId)
      return pool.node(nodeId)
    }
    if (node.calls.size > 0) throw refused('Requests run on this node: drain it first')
    await db.transaction(async (tx) => {
      await setSleep(tx, row.nodeId, node.sleep.from(Date.now()))
      await trail.record(tx, audit, { targetId: row.nodeId })
    })
    await waitAtMost(tableWaitMs, Promise.resolve(this.options.changedHere('nodes')))
    return pool.node(nodeId)
  }

  /** Sends magic packets until the node is awake, for as long as a request would wait. Does nothing to a node that is awake. */
  async wake(audit: AuditContext, nodeId: string): Promise<NodeRecord> {
    const { config, db, trail, pool, router } = this.options
    const row = await pool.node(nodeId)
    const state = router.pooled(row.nodeId)?.state
    if (state === undefined) throw refused('An operator has revoked this node')
    if (state !== 'asleep') return row
    if ((row.macs ?? []).length === 0) throw refused('No hardware address of this node is known: see nodes set --mac')
    await db.transaction(async (tx) => {
      await liftWakePause(tx, row.nodeId)
      await trail.record(tx, audit, { targetId: row.nodeId })
    })
    router.pooled(row.nodeId)?.wake.lift()
    this.hold(row.nodeId, config.SVC_WAKE_WAIT_MS)
    return row
  }

  private hold(nodeId: NodeId, forMs: number): void {
    const { router, waker } = this.options
    const release = waker.hold(nodeId)
    const end = () => {
      clearTimeout(timer)
      unsubscribe()
      release()
    }
    const late = () => {
      waker.failed(nodeId)
      end()
    }
    const timer = setTimeout(late, forMs)
    timer.unref()
    const unsubscribe = router.subscribe(() => {
      if (router.pooled(nodeId)?.rest == null) end()
    })
  }

  private async suspend({ row: { nodeId } }: PoolNode): Promise<void> {
    const transport = this.options.router.transport(nodeId)
    if (transport === null) throw refused('The node cannot be reached')
    const signal = AbortSignal.timeout(agentMs)
    try {
      const response = await transport.fetch(nodeSleepPath, { method: 'POST', body: '', signal })
      await response.text(probeBytesMax)
      if (response.status === 202) return
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      throw new Problem('upstream_error', { detail: 'The node did not answer' })
    }
    throw refused(
      'The node would not: something runs there, a pinned model is in memory, or its owner is at the computer',
    )
  }
}
