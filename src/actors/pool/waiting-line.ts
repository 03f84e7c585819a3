import { joinQueue, type LinePlace, leaveQueue } from '../../machines/placement/slot-line.ts'
import { Turns } from '../../machines/rules/turns.ts'
import { Roster } from '../../roster.ts'

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
  line: WaitingLine | null = null
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
  round: { said(ticket: Ticket, served: boolean): void } | null = null

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

export interface Waiter {
  readonly ticket: Ticket
  /** In its line. */
  linePlace: number
  readonly wake: () => void
  readonly refuse: () => void
}

/** One model's line. It is forgotten when it is empty, and with it who was served how often. */
export class WaitingLine {
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
