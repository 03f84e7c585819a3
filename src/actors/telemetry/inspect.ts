import type { AnyActorRef, InspectionEvent, StateValue } from 'xstate'
import { failureName, type Log } from '../../log.ts'
import { stateName } from '../../machines/charts/state-name.ts'
import { Roster } from '../../roster.ts'
import { type Transition, TransitionRing } from './transition-ring.ts'

/** Instances of one machine. */
export interface StateCounts {
  /** By state: those that are in it now. */
  readonly live: ReadonlyMap<string, number>
  /** Each of them, with its state. */
  readonly running: Iterable<readonly [{ readonly id: string }, string]>
  /** By state: how often it was entered since the start of this process. */
  readonly entered: ReadonlyMap<string, number>
  /** Another number after every change. */
  readonly version: number
}

export interface Inspector {
  /** Pass as `inspect` to `createActor`. */
  readonly inspect: (event: InspectionEvent) => void
  /** Of one machine, oldest first; of ways that led back, one after the other and all the same, the last. */
  recent(machine: string): readonly Transition[]
  /** By machine. */
  counts(): ReadonlyMap<string, StateCounts>
  subscribe(listener: (transition: Transition) => void): () => void
}

/** The inspector of this process, which also shows charts that run elsewhere. */
export interface OwnInspector extends Inspector {
  /** The chart with this id is said to be in this state now; null: it is gone. */
  reported(machine: string, id: string, state: string | null): void
}

/** Charts whose transitions are logged at `info`; the others at `debug`. */
const loggedMachines: ReadonlySet<string> = new Set(['node', 'router'])

interface MachineSnapshotLike {
  readonly value: StateValue
  readonly status: string
  readonly machine: { readonly id: string }
}

function isMachineSnapshot(snapshot: object): snapshot is MachineSnapshotLike {
  return 'machine' in snapshot && 'value' in snapshot
}

/** A chart that runs, and its state. The chart itself is not kept. */
interface Running {
  readonly id: string
  state: string
  place: number
}

/** Some charts live no longer than a request (decision 23). */
class RunningCharts implements Iterable<readonly [{ readonly id: string }, string]> {
  private readonly all = new Roster<'place', Running>('place')
  private readonly of = new WeakMap<AnyActorRef, Running>()

  stateOf(actor: AnyActorRef): string | null {
    const running = this.of.get(actor)
    return running === undefined || !this.all.has(running) ? null : running.state
  }

  /** `state` null: it has ended. */
  set(actor: AnyActorRef, state: string | null): void {
    const known = this.of.get(actor)
    if (state === null) {
      if (known !== undefined) this.all.delete(known)
      return
    }
    const running = known ?? { id: actor.id, state, place: -1 }
    running.state = state
    if (known === undefined) this.of.set(actor, running)
    this.all.add(running)
  }

  *[Symbol.iterator](): Generator<readonly [{ readonly id: string }, string]> {
    for (const running of this.all) yield [running, running.state]
  }
}

/** What is kept of one machine. */
class MachineRecord {
  readonly ring = new TransitionRing()
  readonly live = new Map<string, number>()
  readonly running = new RunningCharts()
  readonly entered = new Map<string, number>()
  version = 0

  add(transition: Transition): void {
    this.ring.add(transition)
    this.entered.set(transition.to, (this.entered.get(transition.to) ?? 0) + 1)
  }

  /** `now` null: it has ended. */
  move(actor: AnyActorRef, now: string | null): void {
    const before = this.running.stateOf(actor)
    if (before === now) return
    this.version++
    if (before !== null) this.live.set(before, (this.live.get(before) ?? 1) - 1)
    if (now !== null) this.live.set(now, (this.live.get(now) ?? 0) + 1)
    this.running.set(actor, now)
  }
}

/** The one observer of all charts: log, console and `GET /v1/admin/inspect` read what it keeps. */
export function createInspector(log: Log, nowMs: () => number = Date.now): OwnInspector {
  const last = new WeakMap<AnyActorRef, string>()
  const began = new WeakMap<AnyActorRef, string>()
  const records = new Map<string, MachineRecord>()
  const listeners = new Set<(transition: Transition) => void>()
  const recordOf = (machine: string) => {
    const known = records.get(machine) ?? new MachineRecord()
    records.set(machine, known)
    return known
  }
  const elsewhere = new Map<string, AnyActorRef>()
  const inspect = (event: InspectionEvent) => {
    if (event.type !== '@xstate.snapshot' || !isMachineSnapshot(event.snapshot)) return
    const actor = event.actorRef as AnyActorRef
    const { snapshot } = event
    const machine = snapshot.machine.id
    const to = stateName(snapshot.value)
    recordOf(machine).move(actor, snapshot.status === 'active' ? to : null)
    moved(machine, actor, to, event.event.type)
  }
  const moved = (machine: string, actor: AnyActorRef, to: string, event: string) => {
    const record = recordOf(machine)
    const from = last.get(actor) ?? null
    if (from === to) return
    last.set(actor, to)
    const transition = { machine, id: actor.id, from, to, event, at: nowMs() }
    if (from === null) began.set(actor, to)
    if (record.ring.continues(transition)) return
    record.add(transition)
    if (from !== null && began.get(actor) === to) record.ring.fold(actor.id, to)
    log[loggedMachines.has(machine) ? 'info' : 'debug']('transition', { machine, id: actor.id, from, to })
    for (const listener of listeners) listener(transition)
  }
  const reported: OwnInspector['reported'] = (machine, id, state) => {
    const key = `${machine} ${id}`
    // Only its identity and its id are looked at.
    const actor = elsewhere.get(key) ?? ({ id } as AnyActorRef)
    recordOf(machine).move(actor, state)
    if (state === null) elsewhere.delete(key)
    else {
      elsewhere.set(key, actor)
      moved(machine, actor, state, 'status')
    }
  }
  return {
    inspect,
    reported,
    recent: (machine) => [...(records.get(machine)?.ring.all() ?? [])],
    counts: () => records,
    subscribe: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

/** A failed actor without an observer ends the process (XState rethrows): every actor is passed through here. */
export function observeErrors(actor: AnyActorRef, log: Log): void {
  actor.subscribe({ error: (error) => log.error('actor_failed', { id: actor.id, failure: failureName(error) }) })
}
