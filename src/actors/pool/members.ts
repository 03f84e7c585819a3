import { createActor } from 'xstate'
import type { NodeRow, PoolRows } from '../../db/queries/pool/pool.ts'
import type { CustomerId, NodeId, ProfileId, RuntimeId } from '../../ids.ts'
import { type NodeSnapshot, nodeMachine } from '../../machines/charts/node.ts'
import { LoadTimes } from '../../machines/placement/loads.ts'
import { FirstPolls } from '../../polling/first-polls.ts'
import type { PollResult } from '../../polling/node-watch.ts'
import { observeErrors } from '../telemetry/inspect.ts'
import { connectionTo, watchOver, wayMark } from './node-connection.ts'
import { PoolNode } from './nodes/pool-node.ts'
import type { PoolRuntime } from './nodes/pool-runtime.ts'
import type { Profile } from './nodes/routing-table.ts'
import { type RouterOptions, thresholdsOf } from './router-options.ts'

/** Hears of the nodes of the pool. */
export interface MembersListener {
  added(nodeId: NodeId): void
  /** It was revoked or deleted. */
  removed(node: PoolNode): void
  /** Its row names no way to it. */
  unreachable(nodeId: NodeId): void
  /** Its chart has moved. */
  moved(node: PoolNode, snapshot: NodeSnapshot): void
  /** It was asked for its status. `askedMs`: `performance.now()` then. */
  polled(node: PoolNode, result: PollResult, askedMs: number): Promise<void>
}

/** The nodes of the pool, as the rows of the database have them, each with its chart, its connection and its watch. */
export class Members {
  readonly nodes = new Map<NodeId, PoolNode>()
  readonly profiles = new Map<ProfileId, Profile>()
  /** By the owner of the nodes: another's slow disk says nothing of one's own. */
  private readonly loadTimes = new Map<CustomerId, LoadTimes>()
  private readonly firstPolls = new FirstPolls()

  constructor(
    private readonly options: RouterOptions,
    private readonly listener: MembersListener,
  ) {}

  /** Takes over the rows of the database. */
  adopt(rows: PoolRows): void {
    const wanted = new Map(rows.nodes.filter((row) => row.adminState !== 'revoked').map((row) => [row.nodeId, row]))
    for (const nodeId of [...this.nodes.keys()]) if (!wanted.has(nodeId)) this.remove(nodeId)
    for (const row of wanted.values()) this.reconcile(row)
    const runtimes = new Map<RuntimeId, PoolRuntime>()
    for (const { runtimeId, nodeId, label } of rows.runtimes) {
      const node = this.nodes.get(nodeId)
      if (node !== undefined) runtimes.set(runtimeId, node.knowRuntime(runtimeId, label))
    }
    for (const row of rows.profiles) {
      const profile = runtimes.get(row.runtimeId)?.knowProfile(row)
      if (profile !== undefined) this.profiles.set(row.profileId, profile)
    }
  }

  /** Models that a node has named for the first time. */
  introduced(fresh: readonly Profile[]): void {
    for (const profile of fresh) this.profiles.set(profile.profileId, profile)
  }

  private reconcile(row: NodeRow): void {
    // With another owner it is another node: what was learnt, and what still runs, is the former owner's.
    if (this.nodes.get(row.nodeId)?.row.customerId !== row.customerId) this.remove(row.nodeId)
    const known = this.nodes.get(row.nodeId)
    const node = known ?? this.add(row)
    const before = node.row
    if (node.adoptRow(row)) this.connect(node)
    const wish = known === undefined ? 'active' : before.adminState
    if (row.adminState !== wish) node.drainOrResume(row, Date.now())
    node.sleepOrWake(known === undefined ? null : before.asleep, Date.now())
  }

  private add(row: NodeRow): PoolNode {
    const { nodeId } = row
    const { inspect, log, config } = this.options
    const actor = createActor(nodeMachine, { id: nodeId, input: thresholdsOf(config), inspect })
    const loadTimes = this.loadTimes.get(row.customerId) ?? new LoadTimes(null)
    this.loadTimes.set(row.customerId, loadTimes)
    const node = new PoolNode(row, actor, Date.now(), loadTimes)
    this.nodes.set(nodeId, node)
    this.listener.added(nodeId)
    observeErrors(actor, log)
    actor.start()
    actor.subscribe((snapshot) => this.listener.moved(node, snapshot))
    this.connect(node)
    return node
  }

  /** The node was revoked or deleted, so its chart and its calls end. */
  private remove(nodeId: NodeId): void {
    const node = this.nodes.get(nodeId)
    if (node === undefined) return
    this.nodes.delete(nodeId)
    this.options.polls?.forget(nodeId)
    const { customerId } = node.row
    if (![...this.nodes.values()].some(({ row }) => row.customerId === customerId)) this.loadTimes.delete(customerId)
    for (const profileId of node.profileIds()) this.profiles.delete(profileId)
    node.actor.send({ type: 'revoke.asked', at: Date.now() })
    this.listener.removed(node)
    void node.close()
    if (node.row.kind === 'agent') this.options.agents?.cut(nodeId)
  }

  /** Also runs when the address or the key of a node has changed. The next polls then find its state anew. */
  private connect(node: PoolNode): void {
    node.disconnect()
    const connection = connectionTo(node, this.options)
    node.transport = connection?.transport ?? null
    node.polls.way = wayMark(node.row)
    if (connection === null) {
      this.listener.unreachable(node.row.nodeId)
      return
    }
    node.watch = watchOver(node, this.firstPolls.inTurn(connection.probe), {
      ...this.options,
      polled: (result, askedMs) => this.listener.polled(node, result, askedMs),
    })
    if (this.options.polls?.expects(node.row.nodeId) !== true) void node.watch.pollNow()
  }
}
