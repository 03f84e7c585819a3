import type { ActorRefFrom } from 'xstate'
import type { NodeRow, ProfileRow } from '../db/queries/pool.ts'
import type { RuntimeId } from '../ids.ts'
import { failedPollsMax, type NodeSnapshot, type nodeMachine, nodeStateOf } from '../machines/node.ts'
import type { NodeState } from '../machines/routing.ts'
import { healthy } from '../machines/rules/ejection.ts'
import type { RuntimeStatus } from '../runtimes/runtime.ts'
import type { NodeWatch } from './node-watch.ts'
import type { InFlightCall } from './router.ts'
import type { Profile, RoutedNode } from './routing-table.ts'
import type { NodeTransport } from './transport/transport.ts'

/** Models of one node that are looked at; a node that reports more is wrong or hostile. */
export const modelsPerNodeMax = 1_000

/** One node of the pool: its row, its chart, its last status and the calls it holds. */
export class PoolNode implements RoutedNode {
  readonly profiles = new Map<string, Profile>()
  readonly calls = new Set<InFlightCall>()
  state: NodeState = 'enrolled'
  heldUntilMs = 0
  sinceMs: number
  runtime: RoutedNode['runtime'] = null
  status: RuntimeStatus | null = null
  lastError: { readonly code: string; readonly atMs: number } | null = null
  transport: NodeTransport | null = null
  watch: NodeWatch | null = null
  private readonly retired: NodeTransport[] = []
  /** Polls in a row that found the server there and broken. */
  private polledDown = 0

  constructor(
    public row: NodeRow,
    readonly actor: ActorRefFrom<typeof nodeMachine>,
    nowMs: number,
  ) {
    this.sinceMs = nowMs
  }

  /** Takes over the chart's state; false when nothing that others see has changed. */
  adopt(snapshot: NodeSnapshot, nowMs: number): boolean {
    const state = nodeStateOf(snapshot)
    const { heldUntilMs } = snapshot.context
    if (state === this.state && heldUntilMs === this.heldUntilMs) return false
    if (state !== this.state) this.sinceMs = nowMs
    this.state = state
    this.heldUntilMs = heldUntilMs
    return true
  }

  knowRuntime(runtimeId: RuntimeId): void {
    this.runtime ??= { runtimeId, kind: 'other', slotsTotal: null }
  }

  knowProfile(row: ProfileRow): Profile {
    const known = this.profiles.get(row.upstreamModelId)
    if (known !== undefined) return known
    const profile: Profile = {
      profileId: row.profileId,
      upstreamModelId: row.upstreamModelId,
      load: {
        inFlight: 0,
        ttftEwmaMs: row.ttftMs,
        tokensPerSecond: row.tokensPerSecond,
        durationEwmaMs: null,
        ejectedUntilMs: 0,
      },
      ejection: healthy,
      measuredAt: row.lastMeasuredAt === null ? 0 : Math.floor(row.lastMeasuredAt.getTime() / 1_000),
      usedSincePoll: false,
      model: null,
    }
    this.profiles.set(row.upstreamModelId, profile)
    return profile
  }

  /** Models of a status that have no profile yet. */
  unknownModels(status: RuntimeStatus): readonly string[] {
    const ids = new Set(status.models.slice(0, modelsPerNodeMax).map((model) => model.id))
    const room = Math.max(0, modelsPerNodeMax - this.profiles.size)
    return [...ids].filter((id) => !this.profiles.has(id)).slice(0, room)
  }

  /**
   * Takes over a status; `changed`: routes look different now. A server that is there and broken (5xx on its health)
   * has answered, but its models count as not ready from the second such poll on, like those of a silent one.
   */
  heard(status: RuntimeStatus): { readonly changed: boolean; readonly modelsReady: number } {
    this.polledDown = status.state === 'down' ? this.polledDown + 1 : 0
    const forgiven = status.state === 'down' && this.polledDown < failedPollsMax
    const before = this.signature()
    this.status = status
    if (this.runtime !== null && status.state !== 'down') {
      this.runtime = { ...this.runtime, kind: status.kind, slotsTotal: status.slotsTotal }
    }
    if (!forgiven) {
      const models = new Map(status.models.map((model) => [model.id, model]))
      for (const profile of this.profiles.values()) profile.model = models.get(profile.upstreamModelId) ?? null
    }
    let modelsReady = 0
    for (const { model } of this.profiles.values()) if (model?.ready === true) modelsReady++
    return { changed: before !== this.signature(), modelsReady }
  }

  /** The node's own polls fail at this moment. */
  probeFailing(): boolean {
    return this.polledDown > 0 || this.actor.getSnapshot().context.pollsFailed > 0
  }

  failedWith(code: string, nowMs: number): void {
    this.lastError = { code, atMs: nowMs }
  }

  /** Ends every call; each gives its slot back by itself. */
  loseCalls(): void {
    for (const call of [...this.calls]) call.nodeLost()
  }

  /** A call has ended. */
  drop(call: InFlightCall): void {
    this.calls.delete(call)
    if (this.calls.size > 0 || this.retired.length === 0) return
    for (const transport of this.retired.splice(0)) transport.close()
  }

  /** Before another address: what runs at the old one may end first. */
  disconnect(): void {
    this.watch?.stop()
    if (this.transport === null) return
    if (this.calls.size > 0) this.retired.push(this.transport)
    else this.transport.close()
    this.transport = null
  }

  close(): void {
    this.watch?.stop()
    for (const transport of [this.transport, ...this.retired]) transport?.close()
  }

  private signature(): string {
    const models = [...this.profiles.values()].map(({ model }) =>
      model === null ? 0 : [model.ready, model.contextLength],
    )
    return JSON.stringify([this.runtime, models])
  }
}
