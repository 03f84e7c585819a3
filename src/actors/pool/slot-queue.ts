import { joinQueue, type LinePlace, leaveQueue } from '../../machines/placement/slot-line.ts'
import { Turns } from '../../machines/rules/turns.ts'
import { Roster } from '../../roster.ts'
import type { Config } from '../../settings/config.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'

export type SlotWait = 'slot' | 'full' | 'timeout' | 'aborted'

/** Who waits, for fairness and priority. */
export interface Waiting {
  readonly customerId: string
  readonly keyId: string
  /** 0 to 9: higher ones are served first. */
  readonly priority: number
}

/** A request's place in the line: it keeps it when it was woken and another took the slot. */
export class Ticket implements Waiting {
  readonly customerId: string
  readonly keyId: string
  readonly priority: number
  tags: Tags | null = null
  /** Set while it stands in line. */
  line: Line | null = null
  /** The route for whose slot it waits; null: for any. Does not change while it stands in line. */
  awaits: LinePlace | null = null
  /** It waits for a model to be loaded, not for a slot. */
  loading = false
  /** Its route's model is being taken back into memory for it. */
  rousing = false
  /** The node that is being woken for it; null: none is. */
  waking: string | null = null
  /** Requests that are served before this one; as of when its line was last put in order. */
  ahead = 0
  /** Set while it has been woken and has not said yet whether it found a slot. */
  round: Round | null = null

  constructor({ customerId, keyId, priority }: Waiting) {
    this.customerId = customerId
    this.keyId = keyId
    this.priority = priority
  }

  /** null: it does not wait. */
  get place(): { readonly ahead: number; readonly waiting: number } | null {
    if (this.line === null) return null
    const { length: waiting } = this.line.inOrder()
    return { ahead: this.ahead, waiting }
  }
}

/** When its customer's turn comes, and among those its key's, as of when its line was last put in order. */
interface Tags {
  customer: number
  key: number
  readonly order: number
  /** What time it was among the customers, and among the keys of its own, when it came: it has no turn before that. */
  readonly customerFrom: number
  readonly keyFrom: number
}

/** Requests that wait for one model, and of them those of one key. */
export type QueueBounds = Pick<Config, 'SVC_QUEUE_WAITING_MAX' | 'SVC_QUEUE_WAITING_KEY_MAX'>

/** Requests that wait for a free slot, per model. */
export interface SlotQueue {
  wait(modelId: string, ticket: Ticket, waitMs: number, signal: CancelSignal): Promise<SlotWait>
  /**
   * A slot of this model is free: those who wait look for it, one after the other in the order in which they are to be
   * served, until one has it and the next one finds none. Only they know which nodes they may use. null: anything may have
   * changed, and all of them look. `profileId`: the slot is this route's, and who waits for another's looks last.
   */
  wake(modelId: string | null, profileId?: string): void
  /** Who has waited was placed: virtual time moves on. */
  served(modelId: string, ticket: Ticket): void
  readonly waiting: number
}

interface Waiter {
  readonly ticket: Ticket
  /** In its line. */
  linePlace: number
  readonly wake: () => void
  readonly refuse: () => void
}

/** One model's line. It is forgotten when it is empty, and with it who was served how often. */
class Line {
  private readonly waiters = new Roster<'linePlace', Waiter>('linePlace')
  /** Kept until somebody comes or goes, since many ask for their place in one turn. */
  private ordered: readonly Waiter[] | null = null
  /** By key. */
  private readonly waitingOf = new Map<string, number>()
  private order = 0
  private readonly turns = new Turns()

  get length(): number {
    return this.waiters.size
  }

  /** How many of its key wait. */
  ofKey({ keyId }: Ticket): number {
    return this.waitingOf.get(keyId) ?? 0
  }

  has(waiter: Waiter): boolean {
    return this.waiters.has(waiter)
  }

  add(waiter: Waiter): void {
    waiter.ticket.tags ??= this.tagsFor(waiter.ticket)
    waiter.ticket.line = this
    if (waiter.ticket.awaits !== null) joinQueue(waiter.ticket.awaits)
    this.waiters.add(waiter)
    this.waitingOf.set(waiter.ticket.keyId, this.ofKey(waiter.ticket) + 1)
    this.ordered = null
  }

  remove(waiter: Waiter): void {
    const { ticket } = waiter
    ticket.line = null
    if (ticket.awaits !== null) leaveQueue(ticket.awaits)
    this.waiters.delete(waiter)
    const left = this.ofKey(ticket) - 1
    if (left === 0) this.waitingOf.delete(ticket.keyId)
    else this.waitingOf.set(ticket.keyId, left)
    this.ordered = null
  }

  private tagsFor({ customerId }: Ticket): Tags {
    const { virtual: customerFrom } = this.turns
    const { virtual: keyFrom } = this.turns.of(customerId)
    return { customer: customerFrom, key: keyFrom, order: this.order++, customerFrom, keyFrom }
  }

  /** The customer with the most requests in line gives up its last one to one with fewer; false: that is not needed. */
  makeRoom(customerId: string): boolean {
    const counts = new Map<string, number>()
    for (const { ticket } of this.waiters) counts.set(ticket.customerId, (counts.get(ticket.customerId) ?? 0) + 1)
    const [busiest, most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0])
    if (most <= (counts.get(customerId) ?? 0) + 1) return false
    this.inOrder()
      .findLast(({ ticket }) => ticket.customerId === busiest)
      ?.refuse()
    return true
  }

  served({ customerId, keyId, tags }: Ticket): void {
    if (tags === null) return
    this.turns.served(customerId, tags.customerFrom)
    this.turns.of(customerId).served(keyId, tags.keyFrom)
    this.ordered = null
  }

  /** Higher priorities first; then customers by turns; of one customer its keys by turns. */
  inOrder(): readonly Waiter[] {
    this.ordered ??= this.sorted()
    return this.ordered
  }

  /** Those first who can use a slot of this route: who waits for another one is better off there. */
  inOrderFor(profileId: string): readonly Waiter[] {
    const order = this.inOrder()
    const isFor = ({ ticket: { awaits } }: Waiter) => awaits === null || awaits.profileId === profileId
    return order.every(isFor) ? order : [...order.filter(isFor), ...order.filter((waiter) => !isFor(waiter))]
  }

  private sorted(): readonly Waiter[] {
    const order = [...this.waiters].sort((a, b) => compare(a, b, 'order'))
    const taken = new Map<Turns, number>()
    const turnOf = (whose: Turns, from: number) => {
      const turn = Math.max(taken.get(whose) ?? whose.next, from)
      taken.set(whose, turn + 1)
      return turn
    }
    for (const { ticket } of order) {
      const { tags, customerId, keyId } = ticket
      if (tags !== null) tags.key = turnOf(this.turns.of(customerId).of(keyId), tags.keyFrom)
    }
    order.sort((a, b) => compare(a, b, 'key'))
    // A customer's earliest turn goes to whichever of its requests comes first.
    for (const { ticket } of order) {
      const { tags, customerId } = ticket
      if (tags !== null) tags.customer = turnOf(this.turns.of(customerId), tags.customerFrom)
    }
    order.sort((a, b) => compare(a, b, 'customer'))
    for (const [ahead, { ticket }] of order.entries()) ticket.ahead = ahead
    return order
  }
}

const noTags: Tags = { customer: 0, key: 0, order: 0, customerFrom: 0, keyFrom: 0 }

/** Higher priorities first, then by turn, then by time of arrival. */
function compare({ ticket: a }: Waiter, { ticket: b }: Waiter, by: 'order' | 'key' | 'customer'): number {
  const [mine, other] = [a.tags ?? noTags, b.tags ?? noTags]
  return b.priority - a.priority || mine[by] - other[by] || mine.order - other.order
}

/** Looks that one round has in a turn of the event loop, so that a long line does not hold other work up. */
const looksPerTurn = 64

/**
 * Those who wait look for a slot one after the other. Were all of them woken for each slot that comes free, a line of a
 * thousand would cost a thousand looks for every answer.
 */
class Round {
  private readonly order: readonly Waiter[]
  private at = 0
  private looking: Ticket | null = null
  private anyServed = false

  constructor(
    private readonly line: Line,
    /** It ends when one has a slot and the next one finds none. */
    private readonly short: boolean,
    profileId?: string,
  ) {
    this.order = profileId === undefined ? line.inOrder() : line.inOrderFor(profileId)
  }

  next(): void {
    this.looking = null
    while (this.at < this.order.length) {
      const waiter = this.order[this.at++] as Waiter
      if (!this.line.has(waiter)) continue
      const { ticket } = waiter
      this.looking = ticket
      ticket.round = this
      waiter.wake()
      // A request that has ended meanwhile says neither that it was served nor that it waits again.
      setImmediate(() => this.silent(ticket))
      return
    }
  }

  private silent(ticket: Ticket): void {
    if (this.looking !== ticket) return
    ticket.round = null
    this.next()
  }

  said(ticket: Ticket, served: boolean): void {
    ticket.round = null
    if (this.looking !== ticket) return
    this.looking = null
    if (served) this.anyServed = true
    else if (this.short && this.anyServed) return
    if (this.at % looksPerTurn === 0) setImmediate(() => this.next())
    else this.next()
  }
}

export function createSlotQueue(bounds: QueueBounds): SlotQueue {
  /** Of each model that anybody has waited for. A name stays, so that a line that comes and goes is not kept (decision 23). */
  const lines = new Map<string, Line | null>()
  return {
    wait: (modelId, ticket, waitMs, signal) => {
      if (signal.aborted) return Promise.resolve('aborted')
      if (waitMs <= 0) return Promise.resolve('timeout')
      const line = lines.get(modelId) ?? new Line()
      if (line.ofKey(ticket) >= bounds.SVC_QUEUE_WAITING_KEY_MAX) return Promise.resolve('full')
      if (line.length >= bounds.SVC_QUEUE_WAITING_MAX && !line.makeRoom(ticket.customerId))
        return Promise.resolve('full')
      lines.set(modelId, line)
      return new Promise((resolve) => {
        const leave = () => {
          clearTimeout(timer)
          signal.removeEventListener('abort', aborted)
          line.remove(waiter)
          // A request that was woken in vain stands in line again before this turn is over.
          setImmediate(() => {
            if (line.length === 0 && lines.get(modelId) === line) lines.set(modelId, null)
          })
        }
        const end = (result: SlotWait) => {
          leave()
          resolve(result)
        }
        const aborted = () => end('aborted')
        const waiter = { ticket, linePlace: -1, wake: () => end('slot'), refuse: () => end('full') }
        const timer = setTimeout(end, waitMs, 'timeout')
        signal.addEventListener('abort', aborted)
        line.add(waiter)
        ticket.round?.said(ticket, false)
      })
    },
    wake: (modelId, profileId) => {
      if (modelId === null) {
        for (const line of [...lines.values()]) if (line !== null) new Round(line, false).next()
        return
      }
      const line = lines.get(modelId)
      if (line != null && line.length > 0) new Round(line, true, profileId).next()
    },
    served: (modelId, ticket) => {
      lines.get(modelId)?.served(ticket)
      ticket.round?.said(ticket, true)
    },
    get waiting() {
      let sum = 0
      for (const line of lines.values()) sum += line?.length ?? 0
      return sum
    },
  }
}
