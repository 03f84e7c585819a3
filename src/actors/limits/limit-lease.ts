import type { LeaseMessage, LeaseState } from '../../db/queries/accounts/limits.ts'
import { within } from '../../deadline.ts'
import { ulid } from '../../ids.ts'
import { reserveFor } from '../../machines/rules/quota.ts'
import { secondMs } from '../../time.ts'
import { type LeaseAnswer, LeaseQueue, type LeaseWaiter } from './lease-queue.ts'

/** After this time without use the lease returns its reserve. If no units are held, the lease ends. */
const idleAfterMs = 2 * secondMs
/**
 * A slot or token becomes free this long after its holder stopped renewing it. The holder renews three times as often.
 */
export const leaseTtlMs = 15 * secondMs
/** How long a refusal waits for reserves that other gateways were asked to return. */
const othersWaitMs = 300
const othersPollMs = 40
/**
 * How long an empty pool is not asked again, so that a client that repeats its request does not cost a statement each
 * time.
 */
const emptyForMs = 250
/** After a failure of the database, requests do not wait for it for this time. */
const awayForMs = 250
/** How long a request waits for the database. A message that arrives later is ignored by its number. */
const answerWaitMs = 2 * secondMs
const waitingMax = 10_000

export interface LeaseOptions {
  /** Unix ms. */
  readonly now: () => number
  readonly sync: (limit: number, message: LeaseMessage) => Promise<LeaseState | null>
  /** Whether units are held until they are returned. A lease with held units does not end. */
  readonly holds: boolean
  /** Whether units that were not renewed in time may no longer be spent. Otherwise granted units stay granted. */
  readonly expires: boolean
  /** The largest reserve is the limit divided by this number. */
  readonly reservePart: number
  readonly ttlMs: number
  /** Called when the database did not answer. Waiting requests get the failure. */
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
  /** Units that are returned to an earlier epoch do not concern this one. */
  private epoch = 0
  private holders = 0
  private readonly waiting = new LeaseQueue()
  /** The requests that waited when the last message was sent. */
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
  /** True when the lease has ended. A request that wants more opens a new one. */
  closed = false

  constructor(private readonly options: LeaseOptions) {
    this.takenAtMs = options.now()
  }

  /**
   * Call it before the first use and when a policy changes. A reserve under the old limit is not spent under the new
   * one.
   */
  setLimit(limit: number): void {
    if (limit === this.limit) return
    this.limit = limit
    this.cap = Math.min(this.cap, this.spent)
    this.emptyUntilMs = 0
  }

  /** The rest of the limit by this gateway's knowledge, including the growth since the last message. */
  remaining(perSecond = 0): number {
    const refilled = ((this.options.now() - this.validFromMs) / secondMs) * perSecond
    return Math.min(this.limit, this.left + Math.max(0, refilled) + Math.max(0, this.cap - this.spent))
  }

  /** Returns the epoch of the taken units, or null: then ask with `take`. */
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

  /**
   * Returns units that were not used, or takes more if the number is negative. Call it exactly once for units that are
   * held.
   */
  giveBack(units: number, epoch: number): void {
    if (epoch !== this.epoch) return
    this.spent -= units
    if (this.options.holds) this.holders--
    // Waiting requests get the returned units without a message to the database.
    this.serve()
    if (this.waiting.length === 0) this.wake?.()
  }

  /**
   * Another gateway is about to refuse and waits for what this one can return, or for the answer that it has nothing.
   */
  asked(): void {
    this.shrink(false)
  }

  /** Returns idle reserves, renews and ends. Call it about once a second. */
  tick(): void {
    const now = this.options.now()
    const idle = now - this.takenAtMs >= idleAfterMs
    const unspent = this.cap > this.spent
    if (idle && this.holders === 0) this.shrink(true)
    else if (idle && unspent) this.shrink(false)
    else if ((unspent || this.holders > 0) && now - this.sentAtMs >= this.options.ttlMs / 3) this.converse()
  }

  /** Returns all units that are not held, at the end of the process. */
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

  /** Only one exchange of messages runs at a time. A request that comes while one ends begins the next. */
  private begin(conversation: () => Promise<unknown>): void {
    this.talk ??= conversation()
      .then(
        () => {},
        (error) => {
          this.options.failed(error)
          this.awayUntilMs = this.options.now() + awayForMs
          // A request that came after the message was sent gets a message of its own.
          const { asking } = this
          this.waiting.answer({ kind: 'away' }, (waiter) => asking.has(waiter))
        },
      )
      .finally(() => {
        this.talk = null
        if (this.waiting.length > 0) this.converse()
      })
  }

  /** Returns the reserve. With `close` the lease ends. */
  private shrink(close: boolean): void {
    if (!this.closed) this.begin(() => this.state(close, 0))
  }

  /** Sends messages until no request waits. */
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

  /** Sends one message. null means that the lease has ended, or was unknown and starts again. */
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
    // The units were granted under a limit that has changed since, so the lease asks again before it spends them.
    this.cap = limit === this.limit ? state.granted : Math.min(state.granted, this.spent)
    this.left = state.remaining
    this.validFromMs = this.sentAtMs
    this.nextUnitAtMs = this.options.now() + state.waitMs
    // The pool has no reserve to give, so the lease does not ask for one before a request has to wait.
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
