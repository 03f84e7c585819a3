import type { Config } from '../../settings/config.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import { type Ticket, type Waiter, WaitingLine } from './waiting-line.ts'

export type SlotWait = 'slot' | 'full' | 'timeout' | 'aborted'

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
    private readonly line: WaitingLine,
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
  const lines = new Map<string, WaitingLine | null>()
  return {
    wait: (modelId, ticket, waitMs, signal) => {
      if (signal.aborted) return Promise.resolve('aborted')
      if (waitMs <= 0) return Promise.resolve('timeout')
      const line = lines.get(modelId) ?? new WaitingLine()
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
