import { type ActorRefFrom, createActor, waitFor } from 'xstate'
import type { NodeRow, PoolRows } from '../../db/queries/pool/pool.ts'
import type { NodeId, ProfileId, RuntimeId } from '../../ids.ts'
import { type NodeSnapshot, type NodeThresholds, nodeMachine } from '../../machines/charts/node.ts'
import { routerMachine } from '../../machines/charts/router.ts'
import { unitsPerToken } from '../../machines/placement/cache-view.ts'
import { CacheViews } from '../../machines/placement/cache-views.ts'
import { firstTokenSeen, learnReading, workEnded, workPlaced } from '../../machines/placement/reading.ts'
import type { NodeState, Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { PollResult } from '../../polling/node-watch.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { observeErrors } from '../telemetry/inspect.ts'
import { introduce } from './introduce.ts'
import { createMeasuredCalls, type MeasuredCalls } from './measured-calls.ts'
import { connectionTo, watchOver } from './node-connection.ts'
import { type NodeView, viewOf } from './node-view.ts'
import { PoolNode } from './pool-node.ts'
import type { PoolRuntime } from './pool-runtime.ts'
import { forgetSlowness, learnCall, strikeRoute } from './route-learning.ts'
import type { CallOutcome, FailedCall, InFlightCall, Router } from './router.ts'
import { type RouterOptions, thresholdsOf } from './router-options.ts'
import { type Catalogue, catalogueOf, type Profile } from './routing-table.ts'
import { createSlotQueue, type SlotQueue, type SlotWait, type Ticket } from './slot-queue.ts'
import { TableBuilder } from './table-builder.ts'

/** How many times the bound of one poll the first polls may take, with detection. */
const probingPollsMax = 3

/** The whole pool, for its owner and for the admin routes. */
export class PoolRouter implements Router {
  private readonly actor: ActorRefFrom<typeof routerMachine>
  private readonly thresholds: NodeThresholds
  private readonly members = new Map<NodeId, PoolNode>()
  private readonly byProfile = new Map<ProfileId, Profile>()
  private readonly queue: SlotQueue
  private readonly measured: MeasuredCalls
  private readonly listeners = new Set<(table: RoutingTable) => void>()
  readonly caches = new CacheViews()
  private catalogue: Catalogue = new Map()
  private readonly tables = new TableBuilder()
  private current: RoutingTable = this.tables.build(new Map(), new Map(), 0, Date.now())
  private batching = false
  private measuredSincePublish = false

  constructor(private readonly options: RouterOptions) {
    const { config, db, log } = options
    this.queue = createSlotQueue(config.SVC_QUEUE_WAITING_MAX)
    this.measured = createMeasuredCalls(db, log, () => {
      if (this.measuredSincePublish) this.publish()
    })
    this.thresholds = thresholdsOf(config)
    const probingMaxMs = probingPollsMax * config.SVC_PROBE_TIMEOUT_MS
    this.actor = createActor(routerMachine, { id: 'router', input: { probingMaxMs }, inspect: options.inspect })
    observeErrors(this.actor, log)
    this.actor.start()
  }

  table(): RoutingTable {
    return this.current
  }

  transport(nodeId: NodeId): NodeTransport | null {
    return this.members.get(nodeId)?.transport ?? null
  }

  claim(route: Route, call: InFlightCall): void {
    route.load.inFlight++
    this.members.get(route.nodeId)?.calls.add(call)
    if (call.work === null) return
    workPlaced(route.load.reading, call.work, call.timed)
    this.caches.of(route.modelId).record(route.profileId, call.work.prompt)
  }

  began({ load, nodeId }: Route, call: InFlightCall): void {
    const { work, timed } = call
    if (work?.readMs !== null || !timed) return
    // One read of the node can hold the first chunk and the end: then the work is settled already.
    if (this.members.get(nodeId)?.calls.has(call) === true) firstTokenSeen(load.reading, work, Date.now())
  }

  release(route: Route, call: InFlightCall, outcome: CallOutcome): void {
    route.load.inFlight--
    this.settleWork(route, call, outcome)
    const node = this.members.get(route.nodeId)
    if (node !== undefined) {
      node.drop(call)
      const profile = this.byProfile.get(route.profileId)
      if (profile !== undefined) this.learn(node, profile, outcome)
      if (node.state === 'draining') this.endDrainIfIdle(node)
    }
    this.queue.wake(route.modelId)
  }

  /** What the call has taught of reading there, and what stands behind its prompt in the cache now. */
  private settleWork(route: Route, { work, timed }: InFlightCall, outcome: CallOutcome): void {
    if (work === null) return
    const { reading } = route.load
    const now = Date.now()
    // An answer that came in one piece ends before anybody could say that it has begun.
    const late = outcome.kind === 'ok' && outcome.ttftMs !== null && timed && work.readMs === null
    if (late) firstTokenSeen(reading, work, now - outcome.durationMs + outcome.ttftMs)
    workEnded(reading, work, timed, now)
    if (outcome.kind !== 'ok') return
    const { cachedTokens, completionTokens } = outcome
    const cachedUnits = cachedTokens === null ? null : cachedTokens * unitsPerToken
    learnReading(reading, work, cachedUnits)
    const view = this.caches.of(route.modelId)
    view.answered(route.profileId, work.prompt, completionTokens * unitsPerToken)
    if (cachedUnits !== null) view.corrected(route.profileId, work.matchedBlocks, cachedUnits)
  }

  strike(route: Route, failed: FailedCall): void {
    const node = this.members.get(route.nodeId)
    const profile = this.byProfile.get(route.profileId)
    if (node !== undefined && profile !== undefined) strikeRoute(node, profile, failed, this.options)
  }

  waitForSlot(modelId: string, ticket: Ticket, waitMs: number, signal: CancelSignal): Promise<SlotWait> {
    return this.queue.wait(this.lineOf(modelId), ticket, waitMs, signal)
  }

  servedFromQueue(modelId: string, ticket: Ticket): void {
    this.queue.served(this.lineOf(modelId), ticket)
  }

  /** Aliases of a model wait in one line. */
  private lineOf(modelId: string): string {
    return this.current.byModel.get(modelId)?.[0]?.modelId ?? modelId
  }

  /** Takes over the rows of the database. Call it at the start and after each change of nodes or catalogue entries. */
  rowsChanged(rows: PoolRows): void {
    this.batching = true
    this.catalogue = catalogueOf(rows.entries)
    const wanted = new Map(rows.nodes.filter((row) => row.adminState !== 'revoked').map((row) => [row.nodeId, row]))
    for (const nodeId of [...this.members.keys()]) if (!wanted.has(nodeId)) this.remove(nodeId)
    for (const row of wanted.values()) this.reconcile(row)
    const runtimes = new Map<RuntimeId, PoolRuntime>()
    for (const { runtimeId, nodeId, label } of rows.runtimes) {
      const runtime = this.members.get(nodeId)?.knowRuntime(runtimeId, label)
      if (runtime !== undefined) runtimes.set(runtimeId, runtime)
    }
    for (const row of rows.profiles) {
      const profile = runtimes.get(row.runtimeId)?.knowProfile(row)
      if (profile !== undefined) this.byProfile.set(row.profileId, profile)
    }
    this.batching = false
    this.publish()
    this.actor.send({ type: 'rows.read' })
  }

  /** Resolves when each node of the first rows has answered or failed once, or after a bound. */
  async whenServing(): Promise<void> {
    await waitFor(this.actor, (pool) => !pool.matches('probing'))
  }

  nodes(): readonly NodeView[] {
    return [...this.members.values()].map((node) => viewOf(node, this.catalogue, this.wayTo(node)))
  }

  /** What an operator calls it; its id where its name is its address. null: unknown. */
  nodeName(nodeId: string): string | null {
    const row = this.members.get(nodeId as NodeId)?.row
    if (row === undefined) return null
    return row.url !== null && new URL(row.url).host === row.name ? nodeId : row.name
  }

  counts(): {
    readonly nodes: Readonly<Partial<Record<NodeState, number>>>
    readonly inFlight: number
    /** By `nodeName`, of nodes that have any. */
    readonly inFlightByNode: Readonly<Record<string, number>>
    readonly queued: number
  } {
    const nodes: Partial<Record<NodeState, number>> = {}
    const inFlightByNode: Record<string, number> = {}
    let inFlight = 0
    for (const [nodeId, node] of this.members) {
      nodes[node.state] = (nodes[node.state] ?? 0) + 1
      inFlight += node.calls.size
      const name = node.calls.size === 0 ? null : this.nodeName(nodeId)
      if (name !== null) inFlightByNode[name] = (inFlightByNode[name] ?? 0) + node.calls.size
    }
    return { nodes, inFlight, inFlightByNode, queued: this.queue.waiting }
  }

  /** Resolves when the node was asked, or at once for an unknown node. */
  async pollNow(nodeId: NodeId): Promise<void> {
    await this.members.get(nodeId)?.watch?.pollNow()
  }

  /**
   * The names by which policies know the model that a node calls `upstreamModelId`: id and aliases of its entry, or the
   * name itself.
   */
  namesOf(upstreamModelId: string): readonly string[] {
    return this.catalogue.get(upstreamModelId)?.names ?? [upstreamModelId]
  }

  /** True if the last rows contain the node and it is not revoked. */
  knows(nodeId: NodeId): boolean {
    return this.members.has(nodeId)
  }

  /** The node has dialled in and proved its identity. It is asked at once, and one good answer is enough. */
  dialled(nodeId: NodeId): void {
    const node = this.members.get(nodeId)
    node?.actor.send({ type: 'tunnel.opened', at: Date.now() })
    node?.watch?.pollSoon()
  }

  /** The node's last tunnel has closed, so it gets no new work. */
  hungUp(nodeId: NodeId): void {
    const node = this.members.get(nodeId)
    if (node?.dialsIn !== true) return
    node.failedWith('closed', Date.now())
    node.actor.send({ type: 'connection.refused', at: Date.now() })
  }

  /** The node says that something has changed. The message is not signed, so the node is asked. */
  hinted(nodeId: NodeId): void {
    this.members.get(nodeId)?.watch?.pollSoon()
  }

  /** Calls the listener with every further table. */
  subscribe(listener: (table: RoutingTable) => void): () => void {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  /** Ends polls and writes. Calls that still run hear that their node is lost. */
  async stop(): Promise<void> {
    for (const node of this.members.values()) {
      node.close()
      node.loseCalls()
      node.actor.stop()
    }
    this.actor.send({ type: 'stop.asked' })
    await this.measured.stop()
  }

  private wayTo({ row, transport, dialsIn }: PoolNode): NodeView['transport'] {
    if (transport === null) return null
    return dialsIn ? (this.options.agents?.way(row.nodeId) ?? null) : 'direct'
  }

  private reconcile(row: NodeRow): void {
    const known = this.members.get(row.nodeId)
    const node = known ?? this.add(row)
    const before = node.row
    node.row = row
    if (node === known) {
      const moved = before.url !== row.url || !sameBytes(before.apiKeySealed, row.apiKeySealed)
      if (moved) this.connect(node)
    }
    const wish = known === undefined ? 'active' : before.adminState
    if (row.adminState === wish) return
    const at = row.drainStartedAt?.getTime() ?? Date.now()
    if (row.adminState === 'draining') node.actor.send({ type: 'drain.asked', at })
    else node.actor.send({ type: 'resume.asked', at: Date.now() })
  }

  private add(row: NodeRow): PoolNode {
    const { nodeId } = row
    const { inspect, log } = this.options
    const actor = createActor(nodeMachine, { id: nodeId, input: this.thresholds, inspect })
    const node = new PoolNode(row, actor, Date.now())
    this.members.set(nodeId, node)
    this.actor.send({ type: 'node.added', nodeId })
    observeErrors(actor, log)
    actor.start()
    actor.subscribe((snapshot) => this.follow(node, snapshot))
    this.connect(node)
    return node
  }

  /** The node was revoked or deleted, so its chart and its calls end. */
  private remove(nodeId: NodeId): void {
    const node = this.members.get(nodeId)
    if (node === undefined) return
    this.members.delete(nodeId)
    for (const { profileId } of node.profiles()) {
      this.byProfile.delete(profileId)
      this.caches.forget(profileId)
    }
    node.actor.send({ type: 'revoke.asked', at: Date.now() })
    this.actor.send({ type: 'node.removed', nodeId })
    node.close()
    if (node.row.kind === 'agent') this.options.agents?.cut(nodeId)
  }

  /** Also runs when the address or the key of a node has changed. The next polls then find its state anew. */
  private connect(node: PoolNode): void {
    node.disconnect()
    const connection = connectionTo(node, this.options)
    node.transport = connection?.transport ?? null
    if (connection === null) {
      this.actor.send({ type: 'node.probed', nodeId: node.row.nodeId })
      return
    }
    node.watch = watchOver(node, connection.probe, { ...this.options, polled: (result) => this.polled(node, result) })
    void node.watch.pollNow()
  }

  private async polled(node: PoolNode, result: PollResult): Promise<void> {
    const { nodeId } = node.row
    const { db, log } = this.options
    const fresh = result.kind === 'answered' ? await introduce(db, log, node, result.reports) : []
    if (this.members.get(nodeId) !== node) return
    for (const profile of fresh) this.byProfile.set(profile.profileId, profile)
    const at = Date.now()
    if (result.kind === 'answered') {
      const warm = new Set([...node.profiles()].filter(isWarm))
      const { changed, modelsReady } = node.heard(result.reports, at)
      for (const profile of warm) if (!isWarm(profile)) this.caches.forget(profile.profileId)
      node.forgetOldError(at)
      forgetSlowness(node.profiles(), this.catalogue, this.current)
      const { version } = this.current
      node.actor.send({ type: 'poll.answered', modelsReady, at })
      if (changed && this.current.version === version) this.publish()
    } else if (result.code !== 'exhausted') {
      if (!awaitsFirstDial(node)) node.failedWith(result.code, at)
      node.actor.send({ type: result.code === 'refused' ? 'connection.refused' : 'poll.failed', at })
    }
    this.actor.send({ type: 'node.probed', nodeId })
  }

  /** The chart has moved. The table follows in the same tick, before any call hears of it. */
  private follow(node: PoolNode, snapshot: NodeSnapshot): void {
    const before = node.state
    if (node.adopt(snapshot, Date.now())) this.publish()
    if (node.state === 'offline') for (const { profileId } of node.profiles()) this.caches.forget(profileId)
    if (snapshot.hasTag('callsLost') || (before === 'draining' && node.state === 'live')) node.loseCalls()
    if (node.state === 'draining' && before !== 'draining') this.endDrainIfIdle(node)
  }

  private endDrainIfIdle(node: PoolNode): void {
    if (node.calls.size === 0) node.actor.send({ type: 'calls.drained', at: Date.now() })
  }

  private learn(node: PoolNode, profile: Profile, outcome: CallOutcome): void {
    const measured = learnCall(node, profile, outcome, this.options)
    if (measured === null) return
    this.measured.record(measured)
    this.measuredSincePublish = true
  }

  private publish(): void {
    if (this.batching) return
    this.measuredSincePublish = false
    this.current = this.tables.build(this.members, this.catalogue, this.current.version + 1, Date.now())
    for (const listener of this.listeners) listener(this.current)
    this.queue.wake(null)
  }
}

/** The cache of the profile may still hold what it has read. */
const isWarm = ({ model }: Profile) => model !== null && model.loaded !== false

/** The node has not failed, because nobody can reach it before it has dialled in. */
const awaitsFirstDial = ({ dialsIn, state }: PoolNode) => dialsIn && state === 'enrolled'

function sameBytes(a: Buffer | null, b: Buffer | null): boolean {
  return a === null || b === null ? a === b : a.equals(b)
}
