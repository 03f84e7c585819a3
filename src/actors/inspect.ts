import type { AnyActorRef, InspectionEvent, StateValue } from 'xstate'
import { failureName, type Log } from '../log.ts'

/** One change of state of one running chart: types, ids and times, never content. */
export interface Transition {
  readonly machine: string
  /** Of the actor, e.g. a node id. */
  readonly id: string
  /** Dotted, e.g. `stale.silent`; null at the start. */
  readonly from: string | null
  readonly to: string
  readonly event: string
  /** Unix ms. */
  readonly at: number
}

export interface Inspector {
  /** Pass as `inspect` to `createActor`. */
  readonly inspect: (event: InspectionEvent) => void
  /** Oldest first. */
  recent(): readonly Transition[]
  subscribe(listener: (transition: Transition) => void): () => void
}

export const transitionsKeptMax = 1_000
/** Charts whose transitions are logged at `info`; the others at `debug`. */
const loggedMachines: ReadonlySet<string> = new Set(['node', 'router'])

export function stateName(value: StateValue): string {
  if (typeof value === 'string') return value
  return Object.entries(value)
    .map(([key, child]) => (child === undefined ? key : `${key}.${stateName(child)}`))
    .join(',')
}

interface MachineSnapshotLike {
  readonly value: StateValue
  readonly machine: { readonly id: string }
}

function isMachineSnapshot(snapshot: object): snapshot is MachineSnapshotLike {
  return 'machine' in snapshot && 'value' in snapshot
}

/** The one observer of all charts: log, console and `GET /v1/admin/inspect` read what it keeps. */
export function createInspector(log: Log, nowMs: () => number = Date.now): Inspector {
  const last = new WeakMap<AnyActorRef, string>()
  const ring: Transition[] = []
  const listeners = new Set<(transition: Transition) => void>()
  const inspect = (event: InspectionEvent) => {
    if (event.type !== '@xstate.snapshot' || !isMachineSnapshot(event.snapshot)) return
    const actor = event.actorRef as AnyActorRef
    const to = stateName(event.snapshot.value)
    const from = last.get(actor) ?? null
    if (from === to) return
    last.set(actor, to)
    const machine = event.snapshot.machine.id
    const transition = { machine, id: actor.id, from, to, event: event.event.type, at: nowMs() }
    ring.push(transition)
    if (ring.length > transitionsKeptMax) ring.shift()
    log[loggedMachines.has(machine) ? 'info' : 'debug']('transition', { machine, id: actor.id, from, to })
    for (const listener of listeners) listener(transition)
  }
  return {
    inspect,
    recent: () => [...ring],
    subscribe: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

/** A failed actor that nobody observes ends the process (XState rethrows): every actor is passed through here. */
export function observeErrors(actor: AnyActorRef, log: Log): void {
  actor.subscribe({ error: (error) => log.error('actor_failed', { id: actor.id, failure: failureName(error) }) })
}
