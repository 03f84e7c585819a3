import type { Database, DatabaseAccess } from '../../db/client.ts'
import { type Executor, prepared } from '../../db/prepared.ts'
import type { CustomerRow } from '../../db/queries/accounts/accounts.ts'
import {
  type ReserveOutcome,
  type ReserveRow,
  reserveAll,
  type SettleOutcome,
  settleAll,
} from '../../db/queries/money/ledger.ts'
import type { Books } from '../../db/queries/money/ledger-proof.ts'
import { Problem } from '../../errors.ts'
import { failureName, type Log } from '../../log.ts'
import { Roster } from '../../roster.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { GroupCommit, isRowFault, NoRoom } from '../durable/group-commit.ts'
import { UntilTaken } from '../durable/until-taken.ts'
import type { ReceiptMacs } from '../log/receipt-macs.ts'
import {
  type Charge,
  commitSettlements,
  isOpen,
  type LeasedCharges,
  LeasedSettlement,
  type OpenReservation,
  openReservation,
  releaseOf,
  type Settled,
  type Settlement,
  settlementOf,
} from './charge.ts'
import type { LeaseTerms } from './customer-lease.ts'
import { insufficientFunds, uncovered } from './insufficient-funds.ts'
import { createUpkeep, type LedgerUpkeep, type UpkeepState } from './ledger-upkeep.ts'
import { MoneyLeases } from './money-leases.ts'
import { type Reservation, released, reserveRow, settleRow } from './reservation.ts'

export interface LedgerState extends UpkeepState {
  readonly groups: number
  readonly requests: number
  readonly waiting: number
}

export interface LedgerOptions extends DatabaseAccess {
  readonly log: Log
  readonly macs: ReceiptMacs
  /** A reservation without a renewal is released after this time, ms (§13). */
  readonly staleMs?: number
  /** From this number of a customer's charges in a commit on they are one row (`groupFromDefault`). */
  readonly groupFrom?: number
  /** When money is leased (docs/decisions/0051). */
  readonly leases?: Partial<LeaseTerms>
}

const staleMsDefault = 15 * minuteMs
const groupMax = 512
/** Far more than the requests that a gateway can hold open. Only an unreachable database fills it. */
const waitingMax = 100_000
const commitWaitMs = 20 * secondMs
/**
 * Charges may wait a little for each other, as the answer is whole by then; a reserve stands before the first token and
 * never does. With 64 requests at once on one customer, each costs a quarter less processor time for it (decision 20).
 */
const settleGatherMsMax = 5
const stopWaitMs = 10 * secondMs

/**
 * Reserves and settles, group-committed. Nothing is debited that was not reserved, and nothing reserved that is not there.
 *
 * How a request may end: an answer, whole, partial or left by its client, is charged for what passed (`settle`); one that
 * gave nothing is not (`release`); a gateway that died charges nothing, its reservations are released when nobody has
 * renewed them for 15 minutes.
 */
export class Ledger {
  private readonly db: Database
  private readonly statements: Executor
  private readonly reserves: GroupCommit<ReserveRow, ReserveOutcome>
  private readonly settles: GroupCommit<Settlement, SettleOutcome>
  private readonly leases: MoneyLeases
  private readonly leased: LeasedCharges
  private readonly open = new Roster<'openPlace', OpenReservation>('openPlace')
  /** Reserves under way, whose charges are still to come. */
  private reserving = 0
  /** Settlements and releases. */
  private readonly ends: UntilTaken
  private readonly upkeep: LedgerUpkeep

  constructor(private readonly options: LedgerOptions) {
    this.db = options.db
    this.statements = prepared(options.sql)
    const staleMs = options.staleMs ?? staleMsDefault
    this.upkeep = createUpkeep({
      ...options,
      staleMs,
      open: () => [...this.open].flatMap(({ id, lease }) => (lease === null ? [id] : [])),
      release: (ids) => this.releaseAll(ids),
    })
    this.ends = new UntilTaken(options.log)
    const bounds = { groupMax, waitingMax, commitWaitMs }
    this.reserves = new GroupCommit({ ...bounds, commit: (rows) => reserveAll(this.statements, rows, staleMs) })
    const gather = {
      msMax: settleGatherMsMax,
      moreCome: (waiting: number) => this.open.size + this.reserving > waiting,
    }
    this.leases = new MoneyLeases({
      ...options,
      terms: options.leases ?? {},
      staleMs,
      groups: { ...bounds, gather },
      retried: (work) => this.ends.write(work),
    })
    this.leased = {
      settles: this.leases.settles,
      ends: this.ends,
      closed: (reservation) => this.closed(reservation),
      settleRow: (reservation, settlement) => this.settleRow(reservation, settlement),
    }
    this.settles = new GroupCommit({
      ...bounds,
      gather,
      commit: (settlements) => commitSettlements(options.db, this.statements, settlements, options.groupFrom),
    })
  }

  start(): void {
    this.upkeep.start()
    void this.leases.start()
  }

  /** Waits for running work, at most 10 s, and for the ends of leases, at most 5 s. */
  async stop(): Promise<void> {
    this.upkeep.stop()
    const untilMs = performance.now() + stopWaitMs
    await this.ends.settled(stopWaitMs)
    await this.leases.stop()
    // What waited for the end of a lease has become a row, and its charge is under way.
    await this.ends.settled(Math.max(0, untilMs - performance.now()))
    this.ends.stop()
    if (this.ends.count > 0) this.options.log.error('settlements_left', { settlements: this.ends.count })
  }

  /**
   * `id`: of the request, used once; `asRow`: others look for it in the database while it runs. At once under a lease. Refuses with
   * `insufficient_funds`, and with `service_unavailable` when the database is away: then nothing stays reserved.
   */
  reserve(wanted: Reservation, { asRow = false } = {}): Reservation | Promise<Reservation> {
    const at = this.leases.entered(wanted.customerId)
    const reservation = openReservation(wanted, at)
    if (asRow || at?.reserve(reservation) !== true) return this.reserveRow(reservation)
    this.open.add(reservation)
    return reservation
  }

  /** Refuses with `insufficient_funds` what is more than the account has, before it is reserved in parts. */
  async refuseUncovered(customerId: string, amountWei: bigint): Promise<void> {
    if ((await uncovered(this.db, customerId, amountWei)) === null) return
    await this.recall(customerId)
    const still = await uncovered(this.db, customerId, amountWei)
    if (still !== null) throw still
  }

  /**
   * The account, in which what is reserved is what requests have reserved. `leasedWei` 0n: this is exact; else a gateway that leases so much
   * does not answer (docs/decisions/0051).
   */
  account(customerId: string): Promise<CustomerRow | null> {
    return this.leases.account(customerId)
  }

  /** Resolves when debit, payout, fee and receipt are on the database's disk. It retries until then. */
  settle(reservation: Reservation, charge: Charge): Promise<Settled> {
    if (!isOpen(reservation) || (reservation.lease === null && reservation.settling === null))
      return this.settleRow(reservation, settlementOf(reservation, charge, this.options.macs))
    reservation.settling ??= this.settleLeased(reservation, charge)
    return reservation.settling
  }

  /** Resolves once accepted. It retries until it is done. */
  release(reservation: Reservation): void {
    void this.releaseOne(reservation).catch((error: unknown) =>
      this.options.log.error('release_failed', { error: failureName(error) }),
    )
  }

  /** Releases a row and completes this key in one commit. Resolves when that is done; false: it had ended, and the key is as it was. */
  async releaseCompleting(reservation: Reservation, completes: Settlement['completes']): Promise<boolean> {
    return (await this.end(reservation, releaseOf(reservation, completes))) === 'settled'
  }

  /** For the metrics: the last read of the books and the work since the start. */
  state(): LedgerState {
    const all = [this.reserves.counts(), this.settles.counts(), this.leases.counts()]
    const sum = (of: 'groups' | 'requests' | 'waiting') => all.reduce((total, each) => total + each[of], 0)
    return {
      ...this.upkeep.state(),
      groups: sum('groups'),
      requests: sum('requests'),
      waiting: sum('waiting'),
    }
  }

  /** Releases reservations whose renewals stopped and resolves with their number. It also runs every minute. */
  async sweep(): Promise<number> {
    await this.leases.sweep()
    return this.upkeep.sweep()
  }

  /** All sums, at the question or after it. Reads the whole ledger, for one caller or for many. */
  books(): Promise<Books> {
    return this.upkeep.books()
  }

  /** Has all leases of this customer end, so that its row says what is available. */
  recall(customerId: string): Promise<void> {
    return this.leases.recall(customerId)
  }

  private async reserveRow(reservation: OpenReservation): Promise<Reservation> {
    const { customerId, amountWei } = reservation
    let outcome: ReserveOutcome | null = null
    this.reserving++
    try {
      outcome = await this.reserveOrRecall(reservation)
    } catch (error) {
      if (isRowFault(error)) throw error
      // The ledger does not know whether the reservation was made, so it releases it to be sure.
      if (!(error instanceof NoRoom)) this.release(reservation)
      this.options.log.warn('reserve_failed', { error: failureName(error) })
      throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
    } finally {
      this.reserving--
      if (outcome !== 'reserved') this.closed(reservation)
    }
    if (outcome === 'insufficient') throw await insufficientFunds(this.db, customerId, amountWei)
    if (outcome !== 'reserved') throw new Error(`a reservation was refused: ${outcome}`)
    this.open.add(reservation)
    return reservation
  }

  /** Nobody is refused while a gateway has leased what it has not reserved. */
  private async reserveOrRecall(reservation: Reservation): Promise<ReserveOutcome> {
    const outcome = await this.reserves.add(reserveRow(reservation))
    if (outcome !== 'insufficient') return outcome
    await this.recall(reservation.customerId)
    return this.reserves.add(reserveRow(reservation))
  }

  /** What may change later, and what says something of a key with it, is charged as a row. */
  private settleLeased(reservation: OpenReservation, charge: Charge): Promise<Settled> {
    const settlement = settlementOf(reservation, charge, this.options.macs)
    const { row, receipt, completes, keeps } = settlement
    if (row.chargedWei === 0n || row.held || receipt === null || completes !== null || keeps !== null)
      return this.settleAsRow(reservation, settlement)
    return new Promise((resolve, reject) => {
      new LeasedSettlement(this.leased, reservation, row, receipt, resolve, reject).begin()
    })
  }

  private async settleAsRow(reservation: OpenReservation, settlement: Settlement): Promise<Settled> {
    await reservation.lease?.makeRow(reservation)
    return this.settleRow(reservation, settlement)
  }

  private async settleRow(reservation: Reservation, settlement: Settlement): Promise<Settled> {
    const { chargedWei } = settlement.row
    let outcome = await this.end(reservation, settlement)
    // A reservation does not wait for the disk, so a crashed database may have lost it although the work was done.
    if (outcome === 'unknown' && (await this.reservedAgain(reservation))) {
      outcome = await this.end(reservation, settlement)
    }
    if (outcome === 'settled') return { outcome, chargedWei }
    this.options.log.warn('settled_too_late', { outcome, charged_wei: chargedWei.toString() })
    return { outcome: 'closed', chargedWei: 0n }
  }

  private async releaseOne(reservation: Reservation): Promise<void> {
    const lease = isOpen(reservation) ? reservation.lease : null
    if (isOpen(reservation) && lease !== null && (await lease.release(reservation))) this.closed(reservation)
    else await this.end(reservation, releaseOf(reservation))
  }

  /** Resolves with how many of the reservations were open. */
  private async releaseAll(ids: readonly string[]): Promise<number> {
    if (ids.length === 0) return 0
    const outcomes = await settleAll(
      this.statements,
      ids.map((id) => settleRow({ id }, released)),
    )
    return outcomes.filter((outcome) => outcome === 'settled').length
  }

  /** The work is done, so this retries until the database has accepted the charge. Repeating a charge does no harm. */
  private end(reservation: Reservation, settlement: Settlement): Promise<SettleOutcome> {
    return this.ends.write(() => this.settles.add(settlement)).finally(() => this.closed(reservation))
  }

  /** Returns false if the account no longer has enough. */
  private async reservedAgain(reservation: Reservation): Promise<boolean> {
    this.options.log.warn('reservation_lost')
    return (await this.ends.write(() => this.reserveOrRecall(reservation))) === 'reserved'
  }

  /** One of another gateway, or of an earlier start, is not among the open ones. */
  private closed(reservation: Reservation): void {
    if (!isOpen(reservation) || reservation.isClosed) return
    reservation.isClosed = true
    this.open.delete(reservation)
    if (reservation.at !== null) reservation.at.running--
  }
}
