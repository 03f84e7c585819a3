import type { PoolRows } from '../../db/queries/pool/pool.ts'
import { waitAtMost } from '../../deadline.ts'
import type { CustomerId, NodeId, ProfileId } from '../../ids.ts'
import type { NodeSnapshot } from '../../machines/charts/node.ts'
import type { CacheViews } from '../../machines/placement/cache-views.ts'
import type { PlacementNotice } from '../../machines/placement/placement-notices.ts'
import { policyNames } from '../../machines/rules/model-policy.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import { secondMs } from '../../time.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { PlacedCalls } from '../placement/placed-calls.ts'
import { stateChanged } from '../sleep/sleep-changes.ts'
import { FirstRound } from './first-round.ts'
import { HeardPolls } from './heard-polls.ts'
import { createMeasuredCalls, type MeasuredCallsWriter } from './measured-calls.ts'
import { Members } from './members.ts'
import { wayTo } from './node-connection.ts'
import type { CallOutcome, FailedCall, InFlightCall } from './nodes/in-flight-call.ts'
import type { PoolNode } from './nodes/pool-node.ts'
import { type Catalogue, cacheOf, catalogueOf, isElsewhere, type Profile, publicIdOf } from './nodes/routing-table.ts'
import { PublishedTable } from './published-table.ts'
import { learnCall, strikeRoute } from './route-learning.ts'
import type { Router } from './router.ts'
import type { RouterOptions } from './router-options.ts'
import { createSlotQueue, type SlotQueue, type SlotWait } from './slot-queue.ts'
import { TakenPolls } from './taken-polls.ts'
import type { NodeView } from './views/node-view.ts'
import type { PoolCounts } from './views/pool-counts.ts'
import { PoolViews } from './views/pool-views.ts'
import type { Ticket } from './waiting-line.ts'

/** What the last polls found is soon written, unless the database is away. Receipts and charges wait to be written behind it. */
const stopWaitMs = 5 * secondMs

/** The whole pool, for its owner and for the admin routes. */
export class PoolRouter implements Router {
  private readonly firstRound: FirstRound
  private readonly membership: Members
  /** Those of the membership. */
  private readonly members: ReadonlyMap<NodeId, PoolNode>
  private readonly byProfile: ReadonlyMap<ProfileId, Profile>
  private readonly queue: SlotQueue
  private readonly measured: MeasuredCallsWriter
  private readonly placed: PlacedCalls
  private readonly views: PoolViews
  readonly caches: CacheViews
  /** For polls of another process of this computer. */
  readonly heard: HeardPolls
  private catalogue: Catalogue = new Map()
  private readonly tables = new PublishedTable({
    nodes: () => this.members,
    catalogue: () => this.catalogue,
    gathers: () => this.firstRound.isUnderWay,
    published: () => this.queue.wake(null),
  })
  private batching = false

  constructor(private readonly options: RouterOptions) {
    const { config, db, log, placed = () => {} } = options
    this.placed = new PlacedCalls(placed)
    this.caches = this.placed.caches
    this.membership = new Members(options, {
      added: (nodeId) => this.firstRound.added(nodeId),
      removed: (node) => {
        this.placed.forget(node.profileIds())
        this.firstRound.removed(node.row.nodeId)
      },
      unreachable: (nodeId) => this.firstRound.probed(nodeId),
      moved: (node, snapshot) => this.follow(node, snapshot),
      polled: (node, result, askedMs) => taken.take(node, result, askedMs),
    })
    const taken = new TakenPolls(options, this.membership, {
      reported: (node, emptied, at) => {
        this.weighEvictions(node, at)
        this.placed.onNotice(node.profiles(), emptied, (id) => publicIdOf(this.catalogue, id))
      },
      version: () => this.tables.version,
      changed: () => this.publish(),
      probed: ({ row }) => this.firstRound.probed(row.nodeId),
    })
    this.members = this.membership.nodes
    this.heard = new HeardPolls(options, this.members, taken)
    this.byProfile = this.membership.profiles
    this.queue = createSlotQueue(config)
    this.measured = createMeasuredCalls(db, log, ({ profileId, firstToken }) => {
      const profile = this.byProfile.get(profileId)
      if (profile !== undefined) profile.firstToken = firstToken
    })
    this.firstRound = new FirstRound(options)
    const { members, caches } = this
    this.views = new PoolViews({
      members,
      caches,
      catalogue: () => this.catalogue,
      wayTo: (node) => wayTo(node, options),
    })
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
    this.firstRound.rowsRead()
  }

  /** Resolves when each node of the first rows has answered or failed once, or after a bound. */
  whenServing(): Promise<void> {
    return this.firstRound.whenOver()
  }

  nodes(): readonly NodeView[] {
    return this.views.all()
  }

  /** null: unknown. */
  node(nodeId: NodeId): NodeView | null {
    return this.views.one(nodeId)
  }

  /** Those that answer. */
  reachable(): ReturnType<PoolViews['reachable']> {
    return this.views.reachable()
  }

  /** What an operator calls it. null: unknown. */
  nodeName(nodeId: string): string | null {
    return this.views.name(nodeId)
  }

  counts(): PoolCounts & { readonly queued: number } {
    return { ...this.views.counts(), queued: this.queue.waiting }
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

  /** Ends polls and writes, and waits for what they write, 5 s at most. Calls that still run hear that their node is lost. */
  async stop(): Promise<void> {
    const polled: Promise<void>[] = []
    for (const node of this.members.values()) {
      polled.push(node.close())
      node.loseCalls()
      node.actor.stop()
    }
    this.firstRound.stop()
    this.tables.stop()
    await waitAtMost(stopWaitMs, Promise.all([...polled, this.measured.stop()]))
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
