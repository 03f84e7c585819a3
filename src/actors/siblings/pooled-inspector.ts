import { type Clock, systemClock } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import type { Transition as Told } from '../../protocol/wire/admin/inspect.ts'
import { type Loads, Moved, type MovedMachine, runningSentMax } from '../../protocol/wire/admin/processes.ts'
import { isoTime } from '../../time.ts'
import type { Inspector, StateCounts } from '../telemetry/inspect.ts'
import type { Transition } from '../telemetry/transition-ring.ts'
import type { Siblings } from './siblings.ts'

/** Charts of which each process runs one for the same thing: theirs say nothing that ours does not. */
export const sameEverywhere: ReadonlySet<string> = new Set(['node', 'router', 'model-server'])
/** While a console is open. */
const askEveryMs = 500
const movedTransitionsMax = 500

/** What a process says of itself. */
interface Own {
  readonly inspector: Inspector
  readonly process: string
  readonly loads: Loads
  /** The charts whose instances rest as rows: who counts those leaves out what works somewhere. */
  readonly durable: ReadonlySet<string>
}

/** What moved here after `sinceMs`; a moment that is not over belongs to the next answer. */
export function movedSince({ inspector, process, loads, durable }: Own, sinceMs: number): Moved {
  const upToMs = Date.now() - 1
  const machines = [...inspector.counts()].filter(([machine]) => !sameEverywhere.has(machine))
  const transitions = machines.flatMap(([machine]) =>
    inspector.recent(machine).filter(({ at }) => at > sinceMs && at <= upToMs),
  )
  return {
    process,
    up_to_ms: upToMs,
    transitions: transitions
      .slice(-movedTransitionsMax)
      .map(({ at, ...moved }): Told => ({ ...moved, at: isoTime(at) })),
    machines: machines.map(([machine, { live, entered, running }]) => ({
      machine,
      ...(durable.has(machine) ? { running: idsOf(running) } : {}),
      states: [...new Set([...live.keys(), ...entered.keys()])].map((state) => ({
        state,
        live: live.get(state) ?? 0,
        entered: entered.get(state) ?? 0,
      })),
    })),
    loads,
  }
}

const idsOf = (running: StateCounts['running']): [string, string][] =>
  [...running].slice(0, runningSentMax).map(([{ id }, state]) => [id, state])

function withTheirs(own: StateCounts['running'], theirs: MovedMachine['running'] = []): StateCounts['running'] {
  if (theirs.length === 0) return own
  return [...own, ...theirs.map(([id, state]) => [{ id }, state] as const)]
}

export interface PooledInspector extends Inspector {
  /** What the other processes have in flight, as they said last. */
  loads(): readonly Loads[]
}

/** The inspector of this process, with what its siblings tell while somebody looks. */
export function createPooledInspector(own: Inspector, siblings: Siblings, clock = systemClock): PooledInspector {
  return siblings.index === null ? { ...own, loads: () => [] } : new Pooled(own, siblings, clock)
}

class Pooled implements PooledInspector {
  readonly inspect: Inspector['inspect']
  private readonly listeners = new Set<(transition: Transition) => void>()
  private answers: readonly Moved[] = []
  private counted = ''
  private version = 0
  private readonly asking: Loop
  private sinceMs = 0
  private endOwn = () => {}

  constructor(
    private readonly own: Inspector,
    private readonly siblings: Siblings,
    clock: Clock,
  ) {
    this.inspect = own.inspect
    this.asking = loop({ everyMs: askEveryMs, run: (ended) => this.ask(ended), clock })
  }

  recent(machine: string): readonly Transition[] {
    return this.own.recent(machine)
  }

  loads(): readonly Loads[] {
    return this.answers.map(({ loads }) => loads)
  }

  counts(): ReadonlyMap<string, StateCounts> {
    const mine = this.own.counts()
    if (this.answers.length === 0) return mine
    const all = new Map(mine)
    for (const one of this.answers.flatMap(({ machines }) => machines)) {
      all.set(one.machine, this.added(all.get(one.machine), one))
    }
    for (const [machine, counts] of all) all.set(machine, { ...counts, version: counts.version + this.version })
    return all
  }

  private added(before: StateCounts | undefined, { states, running: theirs }: MovedMachine): StateCounts {
    const live = new Map(before?.live)
    const entered = new Map(before?.entered)
    for (const one of states) {
      live.set(one.state, (live.get(one.state) ?? 0) + one.live)
      entered.set(one.state, (entered.get(one.state) ?? 0) + one.entered)
    }
    return { live, entered, running: withTheirs(before?.running ?? [], theirs), version: before?.version ?? 0 }
  }

  subscribe(listener: (transition: Transition) => void): () => void {
    if (this.listeners.size === 0) this.begin()
    this.listeners.add(listener)
    return () => {
      this.listeners.delete(listener)
      if (this.listeners.size === 0) this.cease()
    }
  }

  private begin(): void {
    this.endOwn = this.own.subscribe((moved) => this.tell(moved))
    this.sinceMs = Date.now()
    void this.asking.startNow()
  }

  private async ask(ended: AbortSignal): Promise<void> {
    const answers = await this.siblings.ask('moved', { since: String(this.sinceMs) }, Moved)
    if (ended.aborted) return
    // Each moment once: a sibling's clock is ours.
    const earliestMs = Math.min(...answers.map(({ up_to_ms }) => up_to_ms))
    if (Number.isFinite(earliestMs)) this.sinceMs = earliestMs
    this.take(answers, this.sinceMs)
  }

  private take(answers: readonly Moved[], upToMs: number): void {
    this.answers = answers
    const counted = JSON.stringify(answers.map(({ machines }) => machines))
    if (counted !== this.counted) this.version++
    this.counted = counted
    const moved = answers
      .flatMap(({ transitions }) => transitions)
      .map(({ at, ...rest }) => ({ ...rest, at: Date.parse(at) }))
    for (const one of moved.sort((a, b) => a.at - b.at)) if (one.at <= upToMs) this.tell(one)
  }

  private tell(moved: Transition): void {
    for (const listener of this.listeners) listener(moved)
  }

  private cease(): void {
    void this.asking.stop()
    this.endOwn()
    this.answers = []
  }
}
