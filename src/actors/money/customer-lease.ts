import type { LeasedOutcome, ReservedUnder } from '../../db/queries/money/leased-charges.ts'
import type { LeasedReserve } from '../../db/queries/money/leases.ts'
import { newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { Roster } from '../../roster.ts'
import { secondMs } from '../../time.ts'
import type { Reservation } from './reservation.ts'

/** A reservation of this process, under a lease while `lease` is set. */
export interface LeasedReservation extends Reservation, ReservedUnder {
  readonly customerId: string
  lease: CustomerLease | null
  leaseId: string
  leasePlace: number
  reservedAtMs: number
}

/** How a lease reaches the database. Each resolves when the database has answered; `end` repeats until then. */
export interface LeaseCalls {
  /** Begins a lease. Resolves with how much is leased, at most `wei`. */
  readonly take: (leaseId: string, customerId: string, wei: bigint) => Promise<bigint>
  /** The same as an addition to a lease that was there; 0n: it has ended, too. */
  readonly add: LeaseCalls['take']
  /** Makes ordinary reservations of these, and gives the rest back with `ends`. False: the lease is gone. */
  readonly makeRows: (
    lease: { readonly id: string; readonly customerId: string; readonly ends: boolean },
    rows: readonly LeasedReserve[],
  ) => Promise<boolean>
}

export interface LeaseTerms {
  /** So many paid requests of a customer at once here, and its money is leased. */
  readonly from: number
  /** An unrenewed lease ends after this, ms. */
  readonly ttlMs: number
  /** The lease is given back after this time with fewer requests at once, ms. */
  readonly idleMs: number
}

/** The first lease is this many times the quote, each further one twice the last. */
const stepsFirst = 16n
const stepsMax = 4_096n
/** Less than this many quotes are not worth asking for again at once: the customer has little left. */
const stepsWorthwhile = 4n
const restMs = secondMs
/** Nothing is reserved under a lease that ends within this part of its life: its charge must still reach the database. */
const lifeLeftPart = 1 / 3

/**
 * What one process has leased of one customer's money (docs/decisions/0051), and what it has reserved of that. The database counts all of it
 * as leased, never less than is reserved here.
 */
export class CustomerLease {
  /** The customer's paid requests that run here, under the lease or not. */
  running = 0
  private id: string | null = null
  private freeWei = 0n
  /** Of the last addition, below half of which the next is asked for. */
  private stepWei = 0n
  private steps = stepsFirst
  private validUntilMs = 0
  private busyAtMs = 0
  private restUntilMs = 0
  /** Charges, and reservations on their way to being rows. */
  private underWay = 0
  private taking: Promise<void> | null = null
  private ending: Promise<void> | null = null
  private quiet: (() => void) | null = null
  private readonly reserved = new Roster<'leasePlace', LeasedReservation>('leasePlace')

  constructor(
    readonly customerId: string,
    private readonly calls: LeaseCalls,
    private readonly terms: LeaseTerms,
    private readonly log: Log,
    private readonly now: () => number,
  ) {}

  /** Nothing is leased or asked for. */
  get isOver(): boolean {
    return this.id === null && this.running === 0 && this.taking === null && this.ending === null
  }

  /** The lease to renew; null: no lease is due. */
  get renewable(): string | null {
    return this.ending === null && this.validUntilMs > 0 ? this.id : null
  }

  /** Reserves in memory. False: it is to be a row. `running` counts it already. */
  reserve(reservation: LeasedReservation): boolean {
    const now = this.now()
    if (this.running >= this.terms.from) this.busyAtMs = now
    if (this.ending !== null) return false
    const { amountWei } = reservation
    const covered = this.id !== null && this.freeWei >= amountWei && now < this.validUntilMs
    if (covered && this.id !== null) {
      this.freeWei -= amountWei
      reservation.lease = this
      reservation.leaseId = this.id
      reservation.reservedAtMs = Date.now()
      this.reserved.add(reservation)
    }
    if (!covered || this.freeWei < this.stepWei / 2n) this.more(amountWei, now)
    return covered
  }

  /** Resolves when the lease has ended, and never rejects; null: it is not being ended, and a charge may begin. */
  get ends(): Promise<void> | null {
    return this.ending
  }

  /** A charge of what is reserved under it is under way until `charged`. Returns when it began. */
  charges(): number {
    this.underWay++
    return this.now()
  }

  /** What became of a charge that began then. null: not known. */
  charged(reservation: LeasedReservation, outcome: LeasedOutcome | null, chargedWei: bigint, beganMs: number): void {
    // Of a charge of which nothing is known nothing is free: what is left of the lease then, its end gives back.
    let left = 0n
    if (outcome === 'unknown') this.lost(reservation.leaseId)
    else if (outcome === 'settled') {
      left = reservation.amountWei - chargedWei
      if (this.id === reservation.leaseId) this.renewed(beganMs)
    }
    this.leave(reservation, left)
  }

  /** Makes it an ordinary reservation, on the disk. */
  async makeRow(reservation: LeasedReservation): Promise<void> {
    if ((await this.enter(reservation)) === null) return
    try {
      const lease = { id: reservation.leaseId, customerId: this.customerId, ends: false }
      if (!(await this.calls.makeRows(lease, [reservation]))) this.lost(lease.id)
    } finally {
      this.leave(reservation, 0n)
    }
  }

  /** Releases it in memory. False: it is a row, and is to be released as one. */
  async release(reservation: LeasedReservation): Promise<boolean> {
    if ((await this.enter(reservation)) === null) return false
    this.leave(reservation, reservation.amountWei)
    return true
  }

  /** Gives it back. What is reserved under it becomes rows. Resolves when that is done, and never rejects. */
  end(): Promise<void> {
    if (this.id === null && this.taking === null) return Promise.resolve()
    this.ending ??= this.toRows().finally(() => {
      this.ending = null
    })
    return this.ending
  }

  /** Ends it when it was of no use for long. */
  tick(): void {
    if (this.id !== null && this.now() - this.busyAtMs >= this.terms.idleMs) void this.end()
  }

  /** The database has renewed the lease, by a statement that was sent then. */
  renewed(sentAtMs: number): void {
    this.validUntilMs = Math.max(this.validUntilMs, sentAtMs + this.terms.ttlMs * (1 - lifeLeftPart))
  }

  /**
   * The database has this lease no more: what was reserved under it is free, and each charge asks for its money again. Several hear so one after the
   * other, and the customer may have another lease by then, which stays.
   */
  lost(leaseId: string): void {
    if (this.id !== leaseId) return
    this.log.warn('money_lease_lost', { reservations: this.reserved.size })
    this.forget()
  }

  /** Resolves with when it began, or null: the reservation is not under this lease any more. */
  private async enter(reservation: LeasedReservation): Promise<number | null> {
    while (this.ending !== null) await this.ending
    if (reservation.lease !== this) return null
    this.underWay++
    return this.now()
  }

  private leave(reservation: LeasedReservation, freeWei: bigint): void {
    if (reservation.lease === this) {
      this.reserved.delete(reservation)
      reservation.lease = null
      this.freeWei += freeWei
    }
    this.underWay--
    if (this.underWay === 0) this.quiet?.()
  }

  private more(quoteWei: bigint, now: number): void {
    if (this.taking !== null || now < this.restUntilMs || this.running < this.terms.from) return
    this.taking = this.take(quoteWei, now).finally(() => {
      this.taking = null
    })
  }

  private async take(quoteWei: bigint, sentAtMs: number): Promise<void> {
    const ask = this.id === null ? this.calls.take : this.calls.add
    this.id ??= newId('mls')
    const id = this.id
    try {
      const wei = await ask(id, this.customerId, quoteWei * this.steps)
      // It was lost meanwhile, and begun again by this.
      if (this.id !== id) return void (await this.calls.makeRows({ id, customerId: this.customerId, ends: true }, []))
      if (wei < quoteWei * stepsWorthwhile) this.restUntilMs = this.now() + restMs
      if (wei === 0n) {
        if (this.validUntilMs === 0) this.forget()
        return
      }
      this.freeWei += wei
      this.stepWei = wei
      if (this.steps < stepsMax) this.steps *= 2n
      this.renewed(sentAtMs)
    } catch (error) {
      this.log.warn('money_lease_not_taken', { error: failureName(error) })
      this.restUntilMs = this.now() + restMs
      // The database may have granted a lease whose answer was lost.
      void this.end()
    }
  }

  private async toRows(): Promise<void> {
    await this.taking
    if (this.underWay > 0) {
      await new Promise<void>((resolve) => {
        this.quiet = resolve
      })
      this.quiet = null
    }
    if (this.id === null) return
    try {
      const lease = { id: this.id, customerId: this.customerId, ends: true }
      if (!(await this.calls.makeRows(lease, [...this.reserved])) && this.reserved.size > 0) this.lost(lease.id)
    } catch (error) {
      this.log.error('money_lease_not_ended', { error: failureName(error) })
    }
    this.forget()
  }

  private forget(): void {
    for (const reservation of this.reserved) {
      this.reserved.delete(reservation)
      reservation.lease = null
    }
    this.id = null
    this.freeWei = 0n
    this.stepWei = 0n
    this.steps = stepsFirst
    this.validUntilMs = 0
  }
}
