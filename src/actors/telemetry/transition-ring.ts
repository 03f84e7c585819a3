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

/** Of each machine: a chart that moves often must not push out the history of one that rests for days. */
export const transitionsKeptMax = 1_000

interface Known {
  /** Where the last transition that is kept led. */
  to: string
  kept: number
}

const way = (moves: readonly Transition[]) => moves.map(({ event, to }) => `${event} ${to}`).join('\n')

/** The last transitions of one machine, oldest first. */
export class TransitionRing {
  private readonly ring: Transition[] = []
  /** By id of the instance. */
  private readonly known = new Map<string, Known>()

  all(): readonly Transition[] {
    return [...this.ring]
  }

  /** It is hydrated where it rested: nothing has moved. */
  continues({ id, from, to }: Transition): boolean {
    return from === null && this.known.get(id)?.to === to
  }

  add(transition: Transition): void {
    const { id, to } = transition
    this.ring.push(transition)
    this.known.set(id, { to, kept: (this.known.get(id)?.kept ?? 0) + 1 })
    if (this.ring.length > transitionsKeptMax) this.forget(this.ring.shift())
  }

  /**
   * An instance is back where it began. When it went the same way the time before, that time goes: a batch looks at its
   * chain every few seconds for a quarter of an hour, and would push out all that led there.
   */
  fold(id: string, state: string): void {
    const own = this.ring.flatMap((each, at) => (each.id === id ? [{ ...each, at }] : []))
    const visits = own.flatMap(({ to }, at) => (to === state ? [at] : []))
    const [first, second, third] = visits.slice(-3)
    if (first === undefined || second === undefined || third === undefined) return
    const [before, now] = [own.slice(first + 1, second + 1), own.slice(second + 1, third + 1)]
    if (way(before) !== way(now)) return
    for (const { at } of before.toReversed()) this.forget(...this.ring.splice(at, 1))
  }

  private forget(gone?: Transition): void {
    const known = gone === undefined ? undefined : this.known.get(gone.id)
    if (gone === undefined || known === undefined) return
    known.kept--
    if (known.kept === 0) this.known.delete(gone.id)
  }
}
