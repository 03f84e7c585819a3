import { networkInterfaces } from 'node:os'
import type { Loop } from '../../host/loop.ts'
import { broadcastTargets, packetTarget } from '../../host/magic-packet.ts'
import type { Log } from '../../log.ts'
import type { NodePower } from '../../protocol/wire/nodes/power.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import type { RuntimeSet } from '../runtimes/runtime-set.ts'
import { lookOf, type NamedLook } from '../yielding/registry.ts'
import { Yielding, type YieldTimes } from '../yielding/yielding.ts'
import { isAtWork } from './at-work.ts'
import { type JumpTimes, watchClock } from './clock-jump.ts'
import { ownMacs, ownNetworks } from './own-cards.ts'
import { PacketSender } from './packet-sender.ts'
import { Suspension, type SuspensionTimes } from './suspension.ts'
import { YieldedModels } from './yielded-models.ts'

/** What the owner of this computer lets the agent do with it; all of it is off unless it is named. */
export interface PowerOptions {
  /** A line for the system's shell that suspends the computer. */
  readonly suspendCommand?: string
  /** Idle time before it suspends, ms. */
  readonly suspendAfterMs?: number
  /** In the place of the addresses of its network cards. */
  readonly macs?: readonly string[]
  /** The SecureOn password of its card. */
  readonly secureOn?: string
  /** It sends magic packets for sleeping computers of its networks. */
  readonly wakesOthers?: boolean
  /** Where those go, as `192.168.1.255:9`; absent: to everybody on its networks. */
  readonly packetTargets?: readonly string[]
  /** Probes, as `temperature=85`. */
  readonly yields?: readonly string[]
  /** Models leave memory when it yields. */
  readonly yieldUnloads?: boolean
  /** The cards of this computer; others in tests. */
  readonly interfaces?: typeof networkInterfaces
  /** The kernel's folder; another one in tests. */
  readonly sysRoot?: string
  readonly yieldTimes?: YieldTimes
  readonly suspensionTimes?: SuspensionTimes
  readonly jumpTimes?: JumpTimes
}

export interface PowerParts {
  readonly options: PowerOptions
  readonly runtimes: RuntimeSet
  readonly hasGateway: () => boolean
  /** A model is being fetched, or sent to another node. */
  readonly isMoving: () => boolean
  readonly log: Log
}

/** Probes that mean a person at the computer, who would not have it sleep. */
const byAPerson: ReadonlySet<string> = new Set(['gpu', 'fullscreen'])

/** What the computer does beside work: it sleeps, yields to its owner, and wakes others (§39). */
export class Power {
  private readonly listeners = new Set<() => void>()
  private readonly jumps = new Set<() => void>()
  private readonly yielding: Yielding
  private readonly suspension: Suspension | null
  private readonly clock: Loop
  readonly packets: PacketSender
  private readonly models: YieldedModels

  constructor(private readonly parts: PowerParts) {
    const { options, runtimes, log, hasGateway } = parts
    const changed = () => this.changed()
    const looks = looksOf(options, () => isAtWork(runtimes.list()))
    const yieldOptions = options.yieldTimes === undefined ? {} : { times: options.yieldTimes }
    this.yielding = new Yielding({ looks, changed: () => this.yields(), log, ...yieldOptions })
    this.models = new YieldedModels(() => runtimes.list())
    const { suspendCommand: command, suspendAfterMs: afterMs = null } = options
    const times = options.suspensionTimes === undefined ? {} : { times: options.suspensionTimes }
    this.suspension =
      command === undefined
        ? null
        : new Suspension({ command, afterMs, isBusy: () => this.isBusy(), hasGateway, changed, log, ...times })
    const isFalling = () => this.suspension?.sleeps === true
    this.clock = watchClock((sleptMs) => this.woke(sleptMs), isFalling, options.jumpTimes)
    const { packetTargets } = options
    this.packets = new PacketSender(() =>
      packetTargets === undefined ? broadcastTargets() : packetTargets.flatMap((target) => packetTarget(target) ?? []),
    )
  }

  /** Resolves when it is known whether the computer yields. */
  start(): Promise<void> {
    return this.yielding.start()
  }

  async stop(): Promise<void> {
    this.suspension?.stop()
    this.models.keep()
    await Promise.all([this.clock.stop(), this.yielding.stop()])
  }

  /** Nothing new comes from the gateway while it is false. Programs of this computer are served always. */
  get takesWork(): boolean {
    return this.suspension?.sleeps !== true && this.yielding.reasons.length === 0
  }

  get suspends(): boolean {
    return this.suspension !== null
  }

  /** A request has come to the agent. */
  touched(): void {
    this.suspension?.touched()
  }

  /** False: something runs here, or the owner has named no command for it. */
  orderSleep(): boolean {
    return this.suspension?.order() ?? false
  }

  /** For the status, which goes to the gateway now. null: the owner has switched nothing on, and gateways of before know no such member. */
  reported(): NodePower | null {
    const { options } = this.parts
    const { reasons } = this.yielding
    const { suspension } = this
    const isSilent =
      suspension === null && !options.wakesOthers && (options.yields ?? []).length === 0 && options.macs === undefined
    if (isSilent) return null
    const cards = (options.interfaces ?? networkInterfaces)()
    const macs = options.macs ?? (suspension === null ? [] : ownMacs(cards))
    const networks = macs.length === 0 && !options.wakesOthers ? [] : ownNetworks(cards)
    const state = suspension?.sleeps === true ? 'asleep' : reasons.length > 0 ? 'yielding' : 'awake'
    suspension?.read()
    return {
      state,
      ...(reasons.length === 0 ? {} : { reasons: [...reasons] }),
      ...(macs.length === 0 ? {} : { macs: [...macs] }),
      ...(options.secureOn === undefined ? {} : { secure_on: options.secureOn }),
      ...(networks.length === 0 ? {} : { networks: [...networks] }),
      ...(options.wakesOthers ? { wakes_others: true } : {}),
      ...(suspension === null ? {} : { suspends: true }),
    }
  }

  /** Calls back when the status says something else. */
  onChange(listener: () => void): void {
    this.listeners.add(listener)
  }

  /** Calls back when the computer has slept. */
  onJump(listener: () => void): void {
    this.jumps.add(listener)
  }

  private isBusy(): boolean {
    const { runtimes, isMoving } = this.parts
    const list = runtimes.list()
    const isKept = list.some(({ models }) => models.some(({ pinned, loaded }) => pinned === true && loaded === true))
    return isKept || isMoving() || isAtWork(list) || this.yielding.reasons.some((name) => byAPerson.has(name))
  }

  private woke(sleptMs: number): void {
    this.parts.log.info('clock_jumped', { slept_s: Math.round(sleptMs / 1_000) })
    this.suspension?.woke()
    for (const jumped of this.jumps) jumped()
  }

  private yields(): void {
    const yields = this.yielding.reasons.length > 0
    if (!yields) this.models.keep()
    else if (this.parts.options.yieldUnloads === true) this.models.unload()
    this.changed()
  }

  private changed(): void {
    for (const listener of this.listeners) listener()
  }
}

/** Throws `NodeStartError` for what is no probe. */
function looksOf(options: PowerOptions, isBusy: () => boolean): readonly NamedLook[] {
  const world = {
    sysRoot: options.sysRoot ?? '/sys',
    env: process.env,
    isBusy,
    now: Date.now,
    timeZone: new Intl.DateTimeFormat().resolvedOptions().timeZone,
  }
  return (options.yields ?? []).map((text) => {
    const look = lookOf(text, world)
    if (typeof look === 'string') throw new NodeStartError(`--yield ${text}: ${look}`)
    return look
  })
}
