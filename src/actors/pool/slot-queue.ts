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
export interface Ticket extends Waiting {
  /** Set while it stands in line. */
  place: { readonly ahead: number; readonly waiting: number } | null
  tags: Tags | null
}

/** Start-time fair queueing: when its customer's, and among those its key's, turn comes in virtual time. */
interface Tags {
  readonly customer: number
  readonly key: number
  readonly order: number
}

/** Requests that wait for a free slot, per model; bounded by `waitingMax` each. */
export interface SlotQueue {
  wait(modelId: string, ticket: Ticket, waitMs: number, signal: CancelSignal): Promise<SlotWait>
  /**
   * Something changed for this model, or for any model if it is null. All waiting requests wake up and ask again in the
   * order in which they are to be served, because only they know which nodes they may use.
   */
  wake(modelId: string | null): void
  /** Who has waited was placed: virtual time moves on. */
  served(modelId: string, ticket: Ticket): void
  readonly waiting: number
}

export const newTicket = (who: Waiting): Ticket => ({ ...who, place: null, tags: null })

interface Waiter {
  readonly ticket: Ticket
  readonly wake: () => void
  readonly refuse: () => void
}

/** One model's line. It is forgotten when nobody waits, and with it who was served how often. */
class Line {
  readonly waiters = new Set<Waiter>()
  private virtual = 0
  private order = 0
  private placing = false
  private readonly customers = new Map<string, { next: number; virtual: number; readonly keys: Map<string, number> }>()

  tagsFor({ customerId, keyId }: Ticket): Tags {
    const customer = this.customers.get(customerId) ?? { next: 0, virtual: 0, keys: new Map<string, number>() }
    this.customers.set(customerId, customer)
    const tag = Math.max(this.virtual, customer.next)
    customer.next = tag + 1
    const key = Math.max(customer.virtual, customer.keys.get(keyId) ?? 0)
    customer.keys.set(keyId, key + 1)
    return { customer: tag, key, order: this.order++ }
  }

  /** The customer with the most requests in line gives up its last one to one with fewer; false: nobody has to. */
  makeRoom(customerId: string): boolean {
    const own = new Map<string, Waiter[]>()
    for (const waiter of this.waiters)
      own.set(waiter.ticket.customerId, [...(own.get(waiter.ticket.customerId) ?? []), waiter])
    const most = [...own.values()].reduce((a, b) => (b.length > a.length ? b : a), [])
    if (most.length <= (own.get(customerId)?.length ?? 0) + 1) return false
    const last = most.sort((a, b) => compare(a, b, 'key')).at(-1)
    last?.refuse()
    return last !== undefined
  }

  served({ customerId, tags }: Ticket): void {
    const customer = this.customers.get(customerId)
    if (tags === null || customer === undefined) return
    this.virtual = Math.max(this.virtual, tags.customer)
    customer.virtual = Math.max(customer.virtual, tags.key)
  }

  /** Everybody's place, once for all who come in this turn: hundreds who were woken in vain stand in line again at once. */
  placesSoon(): void {
    if (this.placing) return
    this.placing = true
    setImmediate(() => {
      this.placing = false
      this.inOrder()
    })
  }

  /** Higher priorities first; then customers by turns; of one customer its keys by turns. */
  inOrder(): readonly Waiter[] {
    const turns = new Map<string, number[]>()
    const byKey = [...this.waiters].sort((a, b) => compare(a, b, 'key'))
    for (const { ticket } of byKey) {
      const own = turns.get(ticket.customerId)
      if (own === undefined) turns.set(ticket.customerId, [ticket.tags?.customer ?? 0])
      else own.push(ticket.tags?.customer ?? 0)
    }
    for (const own of turns.values()) own.sort((a, b) => b - a)
    // A customer's earliest turn goes to whichever of its requests comes first, and is then that request's own.
    for (const { ticket } of byKey) {
      const customer = turns.get(ticket.customerId)?.pop()
      if (ticket.tags !== null && customer !== undefined) ticket.tags = { ...ticket.tags, customer }
    }
    const order = byKey.sort((a, b) => compare(a, b, 'customer'))
    for (const [ahead, { ticket }] of order.entries()) ticket.place = { ahead, waiting: order.length }
    return order
  }
}

const noTags: Tags = { customer: 0, key: 0, order: 0 }

/** Higher priorities first, then by turn, then whoever came first. */
function compare({ ticket: a }: Waiter, { ticket: b }: Waiter, by: 'key' | 'customer'): number {
  const [mine, other] = [a.tags ?? noTags, b.tags ?? noTags]
  return b.priority - a.priority || mine[by] - other[by] || mine.order - other.order
}

export function createSlotQueue(waitingMax: number): SlotQueue {
  const lines = new Map<string, Line>()
  const wakeAll = (line: Line) => {
    for (const waiter of line.inOrder()) waiter.wake()
  }
  return {
    wait: (modelId, ticket, waitMs, signal) => {
      if (signal.aborted) return Promise.resolve('aborted')
      if (waitMs <= 0) return Promise.resolve('timeout')
      const line = lines.get(modelId) ?? new Line()
      if (line.waiters.size >= waitingMax && !line.makeRoom(ticket.customerId)) return Promise.resolve('full')
      lines.set(modelId, line)
      ticket.tags ??= line.tagsFor(ticket)
      return new Promise((resolve) => {
        const leave = () => {
          clearTimeout(timer)
          signal.removeEventListener('abort', aborted)
          line.waiters.delete(waiter)
          ticket.place = null
          // Whoever was woken in vain stands in line again before this turn is over.
          setImmediate(() => {
            if (line.waiters.size === 0 && lines.get(modelId) === line) lines.delete(modelId)
          })
        }
        const end = (result: SlotWait) => {
          leave()
          resolve(result)
        }
        const aborted = () => end('aborted')
        const waiter = { ticket, wake: () => end('slot'), refuse: () => end('full') }
        const timer = setTimeout(end, waitMs, 'timeout')
        signal.addEventListener('abort', aborted)
        line.waiters.add(waiter)
        line.placesSoon()
      })
    },
    wake: (modelId) => {
      if (modelId === null) {
        for (const line of [...lines.values()]) wakeAll(line)
        return
      }
      const line = lines.get(modelId)
      if (line !== undefined) wakeAll(line)
    },
    served: (modelId, ticket) => lines.get(modelId)?.served(ticket),
    get waiting() {
      let sum = 0
      for (const { waiters } of lines.values()) sum += waiters.size
      return sum
    },
  }
}
