import type { ActorRefFrom } from 'xstate'
import type { NodeRow } from '../../../db/queries/pool/pool.ts'
import type { StoredSleep, StoredVain } from '../../../db/queries/pool/sleeping.ts'
import type { ProfileId, RuntimeId } from '../../../ids.ts'
import { type NodeSnapshot, type nodeMachine, nodeStateOf } from '../../../machines/charts/node.ts'
import { LoadTimes } from '../../../machines/placement/loads.ts'
import { NodeWake } from '../../../machines/placement/wakes.ts'
import { type HostedServer, weighEvictions } from '../../../machines/plan/evictions.ts'
import type { DeviceMb } from '../../../machines/plan/model-memory.ts'
import { LastClaims } from '../../../machines/rules/pricing.ts'
import type { NodeState } from '../../../machines/rules/routing.ts'
import type { NodeWatch, RuntimeReport } from '../../../polling/node-watch.ts'
import type { VerifyKey } from '../../../protocol/signing/ed25519.ts'
import type { Hardware } from '../../../protocol/wire/nodes/hardware.ts'
import type { NodePower } from '../../../protocol/wire/nodes/power.ts'
import { Roster } from '../../../roster.ts'
import { isPooled, type RuntimeStatus } from '../../../runtimes/runtime.ts'
import { minuteMs } from '../../../time.ts'
import type { NodeTransport } from '../../../transport/transport.ts'
import { NodeSleep } from '../../sleep/node-sleep.ts'
import type { InFlightCall } from './in-flight-call.ts'
import { PollMarks } from './poll-marks.ts'
import { PoolRuntime } from './pool-runtime.ts'
import type { Profile, RoutedNode } from './routing-table.ts'

/** How many models of one node are accepted. A node that reports more is wrong or hostile. */
const modelsPerNodeMax = 1_000

/**
 * Some network cards wake their computer for any packet that is meant for it, a poll too. While nobody wakes a sleeping node it is
 * asked this seldom, in case a person has woken it, ms.
 */
export const sleepersPollMs = minuteMs

/** How long the last error of a healthy node is shown. */
export const errorKeptMs = 5 * minuteMs

export interface Heard {
  readonly changed: boolean
  readonly modelsReady: number
  readonly emptied: readonly ProfileId[]
}

const isWarm = ({ model }: Profile) => model !== null && model.loaded !== false

/** One node of the pool: its row, its chart, its last status and its running calls. */
export class PoolNode implements RoutedNode {
  /** By the label that the node gives each runtime. */
  readonly runtimes = new Map<string, PoolRuntime>()
  readonly calls = new Roster<'callPlace', InFlightCall>('callPlace')
  readonly claims = new LastClaims()
  /** Shared with its routes. */
  readonly wake: NodeWake
  readonly sleep: NodeSleep
  /** What its agent said last of its computer; null: nothing, as most do. */
  power: NodePower | null = null
  /** `performance.now()` of the last poll that went out. */
  private askedMs = Number.NEGATIVE_INFINITY
  /** Which of its polls still say something, whichever process made them. */
  readonly polls = new PollMarks()
  private readonly loadTimes: LoadTimes
  state: NodeState = 'enrolled'
  heldUntilMs = 0
  identity: VerifyKey | null = null
  sinceMs: number
  lastError: { readonly code: string; readonly atMs: number } | null = null
  /** The agent's last report; null: no report. */
  hardware: Hardware | null = null
  transport: NodeTransport | null = null
  watch: NodeWatch | null = null
  private readonly retired: NodeTransport[] = []

  constructor(
    public row: NodeRow,
    readonly actor: ActorRefFrom<typeof nodeMachine>,
    nowMs: number,
    /** Of all nodes of its owner. */
    loadTimes: LoadTimes,
  ) {
    this.sinceMs = nowMs
    this.loadTimes = new LoadTimes(loadTimes)
    this.wake = new NodeWake(row.wakeMs)
    this.sleep = new NodeSleep(this.wake)
    this.pauseWaking(undefined)
  }

  /** It is reached by the tunnel that its agent opens, and by nothing else. */
  get dialsIn(): boolean {
    return this.row.kind === 'agent' && this.row.url === null
  }

  /** What its routes say while it sleeps, and until what it had ready is ready again. */
  get rest(): NodeSleep['rest'] {
    return this.sleep.rest
  }

  /** It has not failed, because the gateway cannot reach it before it has dialled in. */
  get awaitsFirstDial(): boolean {
    return this.dialsIn && this.state === 'enrolled'
  }

  /** A pause that any gateway began, or lifted, counts at all of them. `before`: the pause that the row had. */
  private pauseWaking(before: StoredVain | undefined): void {
    const vain = this.row.asleep?.vain
    if (vain !== undefined) this.wake.onOutcome(vain.count, Date.parse(vain.until))
    else if (before !== undefined) this.wake.lift()
  }

  /** Takes over a row. True if its address or its key is another now. */
  adoptRow(row: NodeRow): boolean {
    const { url, apiKeySealed, macs, wakeSecretSealed, asleep } = this.row
    this.row = row
    if (macs?.join() !== row.macs?.join() || !sameBytes(wakeSecretSealed, row.wakeSecretSealed)) this.wake.lift()
    this.pauseWaking(asleep?.vain)
    return url !== row.url || !sameBytes(apiKeySealed, row.apiKeySealed)
  }

  /** An operator wishes it. */
  drainOrResume({ adminState, drainStartedAt }: NodeRow, nowMs: number): void {
    if (adminState === 'draining') this.actor.send({ type: 'drain.asked', at: drainStartedAt?.getTime() ?? nowMs })
    else this.actor.send({ type: 'resume.asked', at: nowMs })
  }

  /** Another gateway, or an operator, says that it sleeps or is awake. `before`: the row's last word. */
  sleepOrWake(before: StoredSleep | null, nowMs: number): void {
    const { asleep } = this.row
    if (asleep?.since !== before?.since) this.polls.moved()
    if (asleep !== null && asleep.since !== before?.since && !this.sleep.isOver(asleep) && this.state !== 'asleep') {
      this.actor.send({ type: 'sleep.told', at: nowMs })
    } else if (asleep === null && before !== null && this.state === 'asleep') {
      this.askedMs = Number.NEGATIVE_INFINITY
      this.actor.send({ type: 'sleep.over', at: nowMs })
      this.watch?.pollSoon()
    }
  }

  /** The pause between two polls while the node sleeps and no request wakes it, ms; 0: the usual rhythm. An agent dials in by itself. */
  get pollPauseMs(): number {
    const sleeps = !this.dialsIn && this.actor.getSnapshot().matches({ asleep: 'gone' })
    return sleeps && this.wake.startedAtMs === null ? sleepersPollMs : 0
  }

  /** It was asked a short while ago, and sleeps. */
  isLeftAlone(nowMs: number): boolean {
    if (nowMs - this.askedMs < this.pollPauseMs) return true
    this.askedMs = nowMs
    return false
  }

  endDrainIfIdle(nowMs: number): void {
    if (this.state === 'draining' && this.calls.size === 0) this.actor.send({ type: 'calls.drained', at: nowMs })
  }

  /** It is asked at once, and one good answer is enough. */
  dialled(nowMs: number): void {
    this.polls.moved()
    this.actor.send({ type: 'tunnel.opened', at: nowMs })
    this.watch?.pollSoon()
  }

  /** It gets no new work. */
  hungUp(nowMs: number): void {
    if (!this.dialsIn) return
    this.polls.moved()
    if (this.state !== 'asleep') this.failedWith('closed', nowMs)
    this.actor.send({ type: 'connection.refused', at: nowMs })
  }

  /** Takes over the state of the chart. Returns false if nothing visible has changed. */
  adopt(snapshot: NodeSnapshot, nowMs: number): boolean {
    const state = nodeStateOf(snapshot)
    const { heldUntilMs } = snapshot.context
    if (state === this.state && heldUntilMs === this.heldUntilMs) return false
    if (state !== this.state) this.sinceMs = nowMs
    this.state = state
    this.heldUntilMs = heldUntilMs
    return true
  }

  knowRuntime(runtimeId: RuntimeId, label: string): PoolRuntime {
    const known = this.runtimes.get(label)
    if (known !== undefined) return known
    const runtime = new PoolRuntime(runtimeId, label, this.loadTimes, this.wake)
    this.runtimes.set(label, runtime)
    return runtime
  }

  profileIds(): readonly ProfileId[] {
    return [...this.profiles()].map(({ profileId }) => profileId)
  }

  *profiles(): Generator<Profile> {
    for (const runtime of this.runtimes.values()) yield* runtime.profiles.values()
  }

  /** Models of a status that have no profile yet, up to the bound of the node. */
  unknownModels(runtime: PoolRuntime, status: RuntimeStatus): readonly string[] {
    let room = modelsPerNodeMax
    for (const { profiles } of this.runtimes.values()) room -= profiles.size
    const ids = new Set(
      status.models
        .slice(0, modelsPerNodeMax)
        .filter(isPooled)
        .map((model) => model.id),
    )
    return [...ids].filter((id) => !runtime.profiles.has(id)).slice(0, Math.max(0, room))
  }

  /**
   * Takes over the reports of all runtimes. `changed`: routes look different now. `emptied`: profiles whose models have
   * left the memory, and with them what their caches held. `lateAskedMs`: `performance.now()` when another process asked.
   */
  onReports(reports: readonly RuntimeReport[], nowMs: number, lateAskedMs: number | null = null): Heard {
    const before = this.signature()
    const warm = [...this.profiles()].filter(isWarm)
    const statuses = new Map(reports.map(({ label, status }) => [label, status]))
    const askedMs = lateAskedMs ?? Math.max(0, this.askedMs)
    const askedAtMs = nowMs - Math.max(0, performance.now() - askedMs)
    let modelsReady = 0
    for (const runtime of this.runtimes.values()) {
      runtime.onStatus(statuses.get(runtime.label) ?? null, nowMs, askedAtMs, lateAskedMs !== null)
      modelsReady += runtime.modelsReady()
    }
    if (this.state === 'ready') this.sleep.sawReady(this.profiles())
    const emptied = warm.filter((profile) => !isWarm(profile)).map(({ profileId }) => profileId)
    return { changed: before !== this.signature(), modelsReady, emptied }
  }

  /**
   * Weighs anew what a load of each of its models would cost others: after a report, and when a load begins, since the next call may come
   * before the next report. `elsewhere`: another node has the model in memory.
   */
  weighEvictions(nowMs: number, elsewhere: (profile: Profile) => boolean): void {
    const servers: HostedServer[] = []
    let budgetMb: DeviceMb = {}
    for (const runtime of this.runtimes.values()) {
      const server = runtime.hosted(elsewhere)
      if (server === null) runtime.weighEvictions(nowMs)
      else servers.push(server)
      budgetMb = runtime.status?.budgetsMb ?? budgetMb
    }
    if (servers.length > 0) weighEvictions(servers, budgetMb, nowMs)
  }

  /** True while the node's own polls fail. */
  probeFailing(): boolean {
    for (const { failing } of this.runtimes.values()) if (failing) return true
    return this.actor.getSnapshot().context.pollsFailed > 0
  }

  failedWith(code: string, nowMs: number): void {
    this.lastError = { code, atMs: nowMs }
  }

  /** The node answers again, so an old error no longer says anything about it. */
  forgetOldError(nowMs: number): void {
    if (this.lastError !== null && nowMs - this.lastError.atMs >= errorKeptMs) this.lastError = null
  }

  /** Ends every call. Each call frees its own slot. */
  loseCalls(): void {
    for (const call of [...this.calls]) call.nodeLost()
  }

  /** A call has ended. */
  drop(call: InFlightCall): void {
    this.calls.delete(call)
    if (this.calls.size > 0 || this.retired.length === 0) return
    for (const transport of this.retired.splice(0)) transport.close()
  }

  /** Call it before the address changes. Requests at the old address may finish first. */
  disconnect(): void {
    void this.watch?.stop()
    if (this.transport === null) return
    if (this.calls.size > 0) this.retired.push(this.transport)
    else this.transport.close()
    this.transport = null
  }

  /** Resolves when its last poll has ended. */
  async close(): Promise<void> {
    const polled = this.watch?.stop()
    for (const transport of [this.transport, ...this.retired]) transport?.close()
    await polled
  }

  private signature(): string {
    return JSON.stringify([...this.runtimes.values()].map((runtime) => runtime.signature()))
  }
}

function sameBytes(a: Buffer | null, b: Buffer | null): boolean {
  return a === null || b === null ? a === b : a.equals(b)
}
