import { type ActorRefFrom, createActor, waitFor } from 'xstate'
import type { PoolRows } from '../../db/queries/pool/pool.ts'
import type { CustomerId, NodeId, ProfileId } from '../../ids.ts'
import type { NodeSnapshot } from '../../machines/charts/node.ts'
import { routerMachine } from '../../machines/charts/router.ts'
import type { CacheViews } from '../../machines/placement/cache-views.ts'
import type { PlacementNotice } from '../../machines/placement/placement-notices.ts'
import { policyNames } from '../../machines/rules/model-policy.ts'
import type { NodeState, Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { PollResult } from '../../polling/node-watch.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { PlacedCalls } from '../placement/placed-calls.ts'
import { nodeAnswered, stateChanged } from '../sleep/sleep-changes.ts'
import { observeErrors } from '../telemetry/inspect.ts'
import { introduce } from './introduce.ts'
import { createMeasuredCalls, type MeasuredCallsWriter } from './measured-calls.ts'
import { Members } from './members.ts'
import { wayTo } from './node-connection.ts'
import { type NodeView, viewOf } from './node-view.ts'
import { countsOf, nodeName, type PoolCounts } from './pool-counts.ts'
import type { PoolNode } from './pool-node.ts'
import { PublishedTable } from './published-table.ts'
import { learnCall, strikeRoute } from './route-learning.ts'
import type { CallOutcome, FailedCall, InFlightCall, Router } from './router.ts'
import { probingMaxMs, type RouterOptions } from './router-options.ts'
import { type Catalogue, cacheOf, catalogueOf, isElsewhere, type Profile, publicIdOf } from './routing-table.ts'
import { createSlotQueue, type SlotQueue, type SlotWait, type Ticket } from './slot-queue.ts'

const answering: ReadonlySet<NodeState> = new Set(['ready', 'live', 'draining'])

/** The whole pool, for its owner and for the admin routes. */
export class PoolRouter implements Router {
  private readonly actor: ActorRefFrom<typeof routerMachine>
  private readonly membership: Members
  /** Those of the membership. */
  private readonly members: ReadonlyMap<NodeId, PoolNode>
  private readonly byProfile: ReadonlyMap<ProfileId, Profile>
  private readonly queue: SlotQueue
  private readonly measured: MeasuredCallsWriter
  private readonly placed: PlacedCalls
  readonly caches: CacheViews
  private catalogue: Catalogue = new Map()
  private readonly tables = new PublishedTable({
    nodes: () => this.members,
    catalogue: () => this.catalogue,
    gathers: () => this.actor.getSnapshot().matches('probing'),
    published: () => this.queue.wake(null),
  })
  /** Nodes that have not answered or failed their first poll. */
  private readonly unprobed = new Set<NodeId>()
  private batching = false

  constructor(private readonly options: RouterOptions) {
    const { config, db, log, placed = () => {} } = options
    this.placed = new PlacedCalls(placed)
    this.caches = this.placed.caches
    this.membership = new Members(options, {
      added: (nodeId) => {
        this.unprobed.add(nodeId)
        this.actor.send({ type: 'node.added' })
      },
      removed: (node) => {
        this.placed.forget(node.profileIds())
        if (this.unprobed.delete(node.row.nodeId)) this.actor.send({ type: 'node.removed' })
      },
      unreachable: (nodeId) => this.probed(nodeId),
      moved: (node, snapshot) => this.follow(node, snapshot),
      polled: (node, result) => this.polled(node, result),
    })
    this.members = this.membership.nodes
    this.byProfile = this.membership.profiles
    this.queue = createSlotQueue(config)
    this.measured = createMeasuredCalls(db, log, ({ profileId, firstToken }) => {
      const profile = this.byProfile.get(profileId)
      if (profile !== undefined) profile.firstToken = firstToken
    })
    const input = { probingMaxMs: probingMaxMs(config) }
    this.actor = createActor(routerMachine, { id: 'router', input, inspect: options.inspect })
    observeErrors(this.actor, log)
    this.actor.start()
  }

  table(): RoutingTable {
    return this.tables.value
  }

  transport(nodeId: NodeId): NodeTransport | null {
    return this.members.get(nodeId)?.transport ?? null
  }

  claim(route: Route, call: InFlightCall): void {
    route.load.inFlight++
    const node = this.members.get(route.nodeId)
    node?.calls.add(call)
    this.placed.begun(route, call)
    if (node !== undefined && route.load.reading.cold) this.weighEvictions(node, Date.now())
  }

  began(route: Route, call: InFlightCall): void {
    // One read of the node can hold the first chunk and the end: then the call is settled already.
    const open = this.members.get(route.nodeId)?.calls.has(call) === true
    if (open && this.placed.spoke(route, call)) this.queue.wake(route.modelId)
  }

  release(route: Route, call: InFlightCall, outcome: CallOutcome): void {
    route.load.inFlight--
    this.placed.ended(route, call, outcome.kind === 'ok' ? outcome : null)
    const node = this.members.get(route.nodeId)
    if (node !== undefined) {
      node.drop(call)
      const profile = this.byProfile.get(route.profileId)
      if (profile !== undefined) this.learn(node, profile, outcome, call)
      node.endDrainIfIdle(Date.now())
    }
    this.queue.wake(route.modelId, route.profileId)
  }

  /** Another gateway has sent this prompt there. */
  placedElsewhere({ profileId, prompt }: PlacementNotice): void {
    const profile = this.byProfile.get(profileId as ProfileId)
    if (profile === undefined) return
    const cache = cacheOf(profile, this.catalogue)
    this.caches.of(cache.modelId).record(cache.profileId, prompt)
  }

  strike(route: Route, failed: FailedCall): void {
    const node = this.members.get(route.nodeId)
    const profile = this.byProfile.get(route.profileId)
    if (node !== undefined && profile !== undefined) strikeRoute(node, profile, failed, this.options)
  }

  proved({ nodeId, profileId }: Route, work: Modality): void {
    const node = this.members.get(nodeId)
    const profile = this.byProfile.get(profileId)
    if (node === undefined || profile === undefined || profile.answered.includes(work)) return
    profile.answered = [...profile.answered, work]
    this.measured.record({ profileId, at: new Date(), firstToken: null, tokensPerSecond: null, answered: [work] })
    this.publish()
  }

  usageReported(route: Route, atBound: boolean): void {
    this.members.get(route.nodeId)?.claims.add(atBound)
  }

  waitForSlot(modelId: string, ticket: Ticket, waitMs: number, signal: CancelSignal): Promise<SlotWait> {
    return this.queue.wait(lineOf(this.tables.value, modelId), ticket, waitMs, signal)
  }

  servedFromQueue(modelId: string, ticket: Ticket): void {
    this.queue.served(lineOf(this.tables.value, modelId), ticket)
  }

  /** Takes over the rows of the database. Call it at the start and after each change of nodes or catalogue entries. */
  rowsChanged(rows: PoolRows): void {
    this.batching = true
    this.catalogue = catalogueOf(rows.entries)
    this.membership.adopt(rows)
    this.batching = false
    this.publish()
    this.actor.send({ type: 'rows.read' })
  }

  /** Resolves when each node of the first rows has answered or failed once, or after a bound. */
  async whenServing(): Promise<void> {
    await waitFor(this.actor, (pool) => !pool.matches('probing'))
  }

  nodes(): readonly NodeView[] {
    return [...this.members.values()].map((node) => this.view(node))
  }

  /** null: unknown. */
  node(nodeId: NodeId): NodeView | null {
    const node = this.members.get(nodeId)
    return node === undefined ? null : this.view(node)
  }

  /** Those that answer. A view of each would cost a hundred times as much, and jobs ask every second. */
  *reachable(): Generator<{ readonly nodeId: NodeId; readonly drained: boolean }> {
    for (const { row, state, transport } of this.members.values()) {
      if (transport === null || !answering.has(state)) continue
      yield { nodeId: row.nodeId, drained: row.adminState === 'draining' }
    }
  }

  /** What an operator calls it. null: unknown. */
  nodeName(nodeId: string): string | null {
    const node = this.members.get(nodeId as NodeId)
    return node === undefined ? null : nodeName(node)
  }

  counts(): PoolCounts & { readonly queued: number } {
    return { ...countsOf(this.members), queued: this.queue.waiting }
  }

  /** Resolves when the node was asked, or at once for an unknown node. */
  async pollNow(nodeId: NodeId): Promise<void> {
    await this.members.get(nodeId)?.watch?.pollNow()
  }

  /**
   * The names by which policies know the model that a node calls `upstreamModelId`: those of its entry, or the name itself,
   * each also without its tag `latest`.
   */
  namesOf(upstreamModelId: string): readonly string[] {
    return this.catalogue.get(upstreamModelId)?.policyNames ?? policyNames([upstreamModelId])
  }

  /** null: unknown. */
  pooled(nodeId: NodeId): PoolNode | null {
    return this.members.get(nodeId) ?? null
  }

  /** All nodes of an owner. */
  *nodesOf(owner: CustomerId): Generator<PoolNode> {
    for (const node of this.members.values()) if (node.row.customerId === owner) yield node
  }

  /** True if the last rows contain the node and it is not revoked. */
  knows(nodeId: NodeId): boolean {
    return this.members.has(nodeId)
  }

  /** The node has dialled in and proved its identity. */
  dialled(nodeId: NodeId): void {
    this.members.get(nodeId)?.dialled(Date.now())
  }

  /** The node's last tunnel has closed. */
  hungUp(nodeId: NodeId): void {
    this.members.get(nodeId)?.hungUp(Date.now())
  }

  /** The node says that something has changed. The message is not signed, so the node is asked. */
  hinted(nodeId: NodeId): void {
    this.members.get(nodeId)?.watch?.pollSoon()
  }

  /** Calls the listener with every further table. */
  subscribe(listener: (table: RoutingTable) => void): () => void {
    return this.tables.subscribe(listener)
  }

  /** Ends polls and writes. Calls that still run hear that their node is lost. */
  async stop(): Promise<void> {
    for (const node of this.members.values()) {
      node.close()
      node.loseCalls()
      node.actor.stop()
    }
    this.actor.send({ type: 'stop.asked' })
    this.tables.stop()
    await this.measured.stop()
  }

  private async polled(node: PoolNode, result: PollResult): Promise<void> {
    const { nodeId } = node.row
    const { db, log } = this.options
    const fresh = result.kind === 'answered' ? await introduce(db, log, node, result.reports) : []
    if (this.members.get(nodeId) !== node) return
    this.membership.introduced(fresh)
    const at = Date.now()
    if (result.kind === 'answered') {
      const { rest } = node
      node.power = result.power ?? null
      if (result.power !== undefined) this.options.sleepBook?.onPower(node.row, result.power)
      const { changed, modelsReady, emptied } = node.onReports(result.reports, at)
      this.weighEvictions(node, at)
      this.placed.onNotice(node.profiles(), emptied, (id) => publicIdOf(this.catalogue, id))
      node.forgetOldError(at)
      const { version } = this.tables
      node.actor.send({
        type: 'poll.answered',
        modelsReady,
        at,
        power: result.power?.state ?? null,
        wanted: node.wake.startedAtMs !== null,
      })
      nodeAnswered(node, at, this.options.sleepBook)
      if ((changed || node.rest !== rest) && this.tables.version === version) this.publish()
    } else if (result.code !== 'exhausted') {
      // Silence of a sleeping node is no error.
      if (!node.awaitsFirstDial && node.state !== 'asleep') node.failedWith(result.code, at)
      node.actor.send({ type: result.code === 'refused' ? 'connection.refused' : 'poll.failed', at })
    }
    this.probed(nodeId)
  }

  private probed(nodeId: NodeId): void {
    if (this.unprobed.delete(nodeId)) this.actor.send({ type: 'node.probed' })
  }

  /** The chart has moved. The table follows in the same tick, before any listener is called. */
  private follow(node: PoolNode, snapshot: NodeSnapshot): void {
    const before = node.state
    const nowMs = Date.now()
    const changed = node.adopt(snapshot, nowMs)
    if (before !== node.state) stateChanged(node, before, nowMs, this.options.sleepBook)
    if (changed) this.publish()
    if (node.state === 'offline') this.placed.forget(node.profileIds())
    if (snapshot.hasTag('callsLost') || (before === 'draining' && node.state === 'live')) node.loseCalls()
    if (before !== 'draining') node.endDrainIfIdle(Date.now())
  }

  private view(node: PoolNode): NodeView {
    const { catalogue, caches, options } = this
    return viewOf(node, { catalogue, caches, way: wayTo(node, options) })
  }

  /** By the last table: with each poll of a large pool that changes, a new one would be made for this alone. */
  private weighEvictions(node: PoolNode, nowMs: number): void {
    node.weighEvictions(nowMs, (profile) => isElsewhere(this.tables.last, this.catalogue, node.row.nodeId, profile))
  }

  private learn(node: PoolNode, profile: Profile, outcome: CallOutcome, call: InFlightCall): void {
    const measured = learnCall(node, profile, outcome, call.work, this.options)
    if (measured !== null) this.measured.record(measured)
  }

  private publish(): void {
    if (!this.batching) this.tables.publish()
  }
}

/** Aliases of a model wait in one line. */
const lineOf = ({ byModel }: RoutingTable, modelId: string) => byModel.get(modelId)?.[0]?.modelId ?? modelId
