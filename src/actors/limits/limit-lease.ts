import type { LeaseMessage, LeaseState } from '../../db/queries/accounts/limits.ts'
import { within } from '../../deadline.ts'
import { ulid } from '../../ids.ts'
import { reserveFor } from '../../machines/rules/quota.ts'
import { secondMs } from '../../time.ts'
import { type LeaseAnswer, LeaseQueue, type LeaseWaiter } from './lease-queue.ts'

/** Nobody took anything for this long: the reserve goes back, and with no holder left the lease ends. */
const idleAfterMs = 2 * secondMs
/** A slot or a token that its holder stops renewing is free again after; it renews three times as often. */
export const leaseTtlMs = 15 * secondMs
/** A refusal waits this long for the reserves that other gateways were asked to give back. */
const othersWaitMs = 300
const othersPollMs = 40
/** A pool found empty is not asked again before: a client that hammers costs no statement per refusal. */
const emptyForMs = 250
/** After a failure of the database nobody waits for it again before. */
const awayForMs = 250
/** The database does not answer: who waits is told so after. A message that arrives later is ignored by its number. */
const answerWaitMs = 2 * secondMs
const waitingMax = 10_000

export interface LeaseOptions {
  /** Unix ms. */
  readonly now: () => number
  readonly sync: (limit: number, message: LeaseMessage) => Promise<LeaseState | null>
  /** What is taken is held until it is given back; a lease with holders does not end. */
  readonly holds: boolean
  /** Not renewed in time, nothing of it may be spent. Otherwise what was granted stays granted. */
  readonly expires: boolean
  /** The largest reserve is the limit divided by this. */
  readonly reservePart: number
  readonly ttlMs: number
  /** The database did not answer; who waits is told so. */
  readonly failed: (error: unknown) => void
}

/**
 * This gateway's share of one pool in PostgreSQL. Units are taken from it without a wait while it lasts; one message at
 * a time states it anew. While a smaller share is being stated only the smaller one is spent, so whatever becomes of
 * the message, no more is spent than the database has granted.
 *
 * State × event → state. A unit "fits" where the share has it, and the share is in force where it `expires`:
 *
 * | state      | take that fits | take that does not  | granted  | too little granted | not known there ¹ | no answer | idle, no holder |
 * | ---------- | -------------- | ------------------- | -------- | ------------------ | ----------------- | --------- | --------------- |
 * | `fresh`    | –              | asks                | `stated` | `empty`            | `fresh`           | `away`    | `closed`        |
 * | `stated`   | spends         | asks                | `stated` | `empty`            | `fresh`           | `away`    | `closed` ²      |
 * | `empty` ³  | spends         | is refused          | `stated` | `empty`            | `fresh`           | `away`    | `closed` ²      |
 * | `away` ³   | spends         | is told `away`      | `stated` | `empty`            | `fresh`           | `away`    | `closed` ²      |
 * | `closed`   | –              | a new lease is made | –        | –                  | –                 | –         | –               |
 *
 * ¹ A new lease and epoch: what is given back to the old one no longer counts. ² Where somebody waits by then: `fresh`. ³ Until
 * `emptyForMs` or `awayForMs` is over, then as `stated`. With other gateways' reserves to be had, who waits is refused
 * only after `othersWaitMs`.
 */
export class LimitLease {
  private leaseId = ulid()
  private seq = 0
  private fresh = true
  private spent = 0
  private cap = 0
  /** What is given back to an earlier epoch is no business of this one. */
  private epoch = 0
  private holders = 0
  private readonly waiting = new LeaseQueue()
  /** Who waited when the last message was sent. */
  private asking: ReadonlySet<LeaseWaiter> = new Set()
  private talk: Promise<void> | null = null
  private wake: (() => void) | null = null
  private demand = 0
  private reserve = 0
  private takenAtMs: number
  private sentAtMs = Number.NEGATIVE_INFINITY
  private validFromMs = 0
  private emptyUntilMs = 0
  private awayUntilMs = 0
  private nextUnitAtMs = 0
  private left = 0
  private limit = 0
  /** Ended: whoever wants more opens a new one. */
  closed = false

  constructor(private readonly options: LeaseOptions) {
    this.takenAtMs = options.now()
  }

  /** Before the first use, and when a policy changes: what was kept under the old limit is not spent under the new one. */
  setLimit(limit: number): void {
    if (limit === this.limit) return
    this.limit = limit
    this.cap = Math.min(this.cap, this.spent)
    this.emptyUntilMs = 0
  }

  /** Left of the limit as far as this gateway knows, with what time has brought since it last asked. */
  remaining(perSecond = 0): number {
    const refilled = ((this.options.now() - this.validFromMs) / secondMs) * perSecond
    return Math.min(this.limit, this.left + Math.max(0, refilled) + Math.max(0, this.cap - this.spent))
  }

  /** The epoch of what was taken, or null: ask with `take`. */
  tryTake(units: number): number | null {
    const now = this.options.now()
    if (this.waiting.length > 0 || !this.fits(units, now)) return null
    this.book(units, now)
    this.demand += units
    if (this.cap - this.spent < this.reserve / 2) this.converse()
    return this.epoch
  }

  take(units: number): LeaseAnswer | Promise<LeaseAnswer> {
    const epoch = this.tryTake(units)
    if (epoch !== null) return { kind: 'taken', epoch }
    const now = this.options.now()
    if (units > this.limit) return this.refusal(now)
    if (!this.fits(units, now)) {
      if (now < this.emptyUntilMs) return this.refusal(now)
      if (now < this.awayUntilMs || this.waiting.length >= waitingMax) return { kind: 'away' }
    }
    const answer = this.waiting.join(units, answerWaitMs)
    this.demand += units
    this.converse()
    return answer
  }

  /** Units not used after all; negative where more was used. Exactly once for all that is taken from a lease that holds. */
  giveBack(units: number, epoch: number): void {
    if (epoch !== this.epoch) return
    this.spent -= units
    if (this.options.holds) this.holders--
    // What comes back here needs no question to the database.
    this.serve()
    if (this.waiting.length === 0) this.wake?.()
  }

  /** Another gateway is about to refuse and waits for what this one can spare, or for the word that it has nothing. */
  asked(): void {
    this.shrink(false)
  }

  /** Gives back what lies idle, renews, ends. Call about once a second. */
  tick(): void {
    const now = this.options.now()
    const idle = now - this.takenAtMs >= idleAfterMs
    const unspent = this.cap > this.spent
    if (idle && this.holders === 0) this.shrink(true)
    else if (idle && unspent) this.shrink(false)
    else if ((unspent || this.holders > 0) && now - this.sentAtMs >= this.options.ttlMs / 3) this.converse()
  }

  /** At the end of the process: gives back what nobody holds. */
  async end(): Promise<void> {
    await this.talk
    this.shrink(this.holders === 0)
    await this.talk
  }

  private fits(units: number, now: number): boolean {
    if (this.spent + units > this.cap) return false
    return !this.options.expires || (now >= this.validFromMs && now < this.validFromMs + this.options.ttlMs)
  }

  private book(units: number, now: number): void {
    this.spent += units
    this.takenAtMs = now
    if (this.options.holds) this.holders++
  }

  private serve(): void {
    const now = this.options.now()
    this.waiting.serve((units) => {
      if (!this.fits(units, now)) return null
      this.book(units, now)
      return { kind: 'taken', epoch: this.epoch }
    })
  }

  private refusal(now: number): LeaseAnswer {
    return { kind: 'refused', waitMs: Math.max(0, this.nextUnitAtMs - now) }
  }

  /** One conversation at a time; who came while the last one ended begins the next. */
  private begin(conversation: () => Promise<unknown>): void {
    this.talk ??= conversation()
      .then(
        () => {},
        (error) => {
          this.options.failed(error)
          this.awayUntilMs = this.options.now() + awayForMs
          // Who came after the message was sent gets one of its own.
          const { asking } = this
          this.waiting.answer({ kind: 'away' }, (waiter) => asking.has(waiter))
        },
      )
      .finally(() => {
        this.talk = null
        if (this.waiting.length > 0) this.converse()
      })
  }

  /** Gives the reserve back; with `close` the lease ends. */
  private shrink(close: boolean): void {
    if (!this.closed) this.begin(() => this.state(close, 0))
  }

  /** States the lease until nobody waits any more. */
  private converse(): void {
    this.begin(async () => {
      const sinceMs = performance.now()
      do {
        const elapsedMs = this.options.now() - this.sentAtMs
        const reserve = reserveFor(this.demand, elapsedMs, this.limit / this.options.reservePart)
        const need = this.need()
        const state = await this.state(false, reserve, performance.now() - sinceMs)
        const { asking } = this
        this.serve()
        if (state === null || state.granted >= need) continue
        if (state.others) await this.waitForOthers(asking)
        else this.refuse((waiter) => asking.has(waiter))
      } while (this.waiting.length > 0)
    })
  }

  private async waitForOthers(asking: ReadonlySet<LeaseWaiter>): Promise<void> {
    const nowMs = performance.now()
    this.refuse((waiter) => asking.has(waiter) && nowMs - waiter.sinceMs >= othersWaitMs)
    if (this.waiting.length === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, othersPollMs)
      this.wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.wake = null
  }

  private refuse(who: (waiter: LeaseWaiter) => boolean): void {
    const now = this.options.now()
    const refusal = this.refusal(now)
    const pauseMs = this.nextUnitAtMs > now ? Math.min(emptyForMs, this.nextUnitAtMs - now) : emptyForMs
    if (this.waiting.answer(refusal, who)) this.emptyUntilMs = now + pauseMs
  }

  private need(): number {
    return this.spent + this.waiting.units
  }

  /** One message. null: the lease ended, or was not known any more and begins anew. */
  private async state(close: boolean, reserve: number, askingMs = 0): Promise<LeaseState | null> {
    const { limit, spent, fresh, leaseId } = this
    const { ttlMs } = this.options
    const need = close ? spent : this.need()
    const want = need + reserve
    this.cap = Math.min(this.cap, want)
    this.asking = this.waiting.present()
    this.demand = 0
    this.reserve = 0
    this.sentAtMs = this.options.now()
    this.seq++
    const message = { leaseId, seq: this.seq, spent, need, want, fresh, close, ttlMs, askingMs }
    const state = close && fresh ? null : await within(answerWaitMs, this.options.sync(limit, message))
    if (close) this.closed = this.waiting.length === 0
    if (close || state === null) return this.reset()
    this.fresh = false
    // Granted under a limit that was changed meanwhile: asked again before it is spent.
    this.cap = limit === this.limit ? state.granted : Math.min(state.granted, this.spent)
    this.left = state.remaining
    this.validFromMs = this.sentAtMs
    this.nextUnitAtMs = this.options.now() + state.waitMs
    // No reserve to be had: nobody is sent for one before somebody has to wait.
    this.reserve = state.granted >= want ? reserve : 0
    return state
  }

  private reset(): null {
    this.leaseId = ulid()
    this.fresh = true
    this.seq = 0
    this.spent = 0
    this.cap = 0
    this.holders = 0
    this.epoch++
    return null
  }
}
