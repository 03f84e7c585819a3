import type { Database, DatabaseAccess } from '../../db/client.ts'
import { type Executor, prepared } from '../../db/prepared.ts'
import { completeKeys, type IdempotentOutcome } from '../../db/queries/accounts/idempotency.ts'
import {
  type ReserveOutcome,
  type ReserveRow,
  reserveAll,
  type SettleOutcome,
  type SettleRow,
  settleAll,
} from '../../db/queries/money/ledger.ts'
import type { Books } from '../../db/queries/money/ledger-proof.ts'
import type { MarkedReceipt, NewReceipt } from '../../db/queries/money/receipts.ts'
import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { retry } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { chargeOf, splitCharge } from '../../machines/rules/pricing.ts'
import type { WorkKind } from '../../protocol/wire/work-kinds.ts'
import { Roster } from '../../roster.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { GroupCommit, isRowFault, NoRoom } from '../durable/group-commit.ts'
import { type MarkedPrices, marksOf, type ReceiptMacs } from '../log/receipt-macs.ts'
import { insufficientFunds, uncovered } from './insufficient-funds.ts'
import { createUpkeep, type LedgerUpkeep, type UpkeepState } from './ledger-upkeep.ts'
import { type Reservation, released, reserveRow, settleRow } from './reservation.ts'

/** One that has not ended, of this gateway. */
interface OpenReservation extends Reservation {
  openPlace: number
}

/** The charge for the work. */
export interface Charge {
  /** The price before the reservation caps it. 0 releases everything. */
  readonly actualWei: bigint
  readonly receipt: NewReceipt
  readonly nodeId: string
  readonly kind: WorkKind
  /** The operator's part, in basis points. */
  readonly feeBps: number
  /** Of the quote. */
  readonly prices?: MarkedPrices
  /** Set if the request had an idempotency key. The same transaction completes the key with this usage. */
  readonly completes?: Pick<IdempotentOutcome, 'requestId' | 'usage'>
}

export interface Settled {
  /**
   * `closed` means that the reservation had already ended, because its gateway was cut off for long. Nothing was
   * debited.
   */
  readonly outcome: 'settled' | 'closed'
  readonly chargedWei: bigint
}

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
  /** From so many charges of a customer in a commit on they are one row (`groupFromDefault`). */
  readonly groupFrom?: number
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
const settleRetries = { firstMs: 50, maxMs: 5 * secondMs }
const stopWaitMs = 10 * secondMs

interface Settlement {
  readonly row: SettleRow
  readonly receipt: MarkedReceipt | null
  readonly completes: IdempotentOutcome | null
}

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
  private readonly open = new Roster<'openPlace', OpenReservation>('openPlace')
  /** Reserves under way, whose charges are still to come. */
  private reserving = 0
  /** Settlements and releases under way. */
  private ending = 0
  private allEnded: (() => void) | null = null
  private readonly upkeep: LedgerUpkeep
  private readonly stopping = new AbortController()
  private readonly retried: ReturnType<typeof retry>

  constructor(private readonly options: LedgerOptions) {
    this.db = options.db
    this.statements = prepared(options.sql)
    const staleMs = options.staleMs ?? staleMsDefault
    this.upkeep = createUpkeep({ ...options, staleMs, open: this.open, release: (ids) => this.releaseAll(ids) })
    this.retried = retry({
      backoff: settleRetries,
      onFailure: (error, failures) => this.notSettled(error, failures),
      signal: this.stopping.signal,
    })
    const bounds = { groupMax, waitingMax, commitWaitMs }
    this.reserves = new GroupCommit({ ...bounds, commit: (rows) => reserveAll(this.statements, rows, staleMs) })
    this.settles = new GroupCommit({
      ...bounds,
      gather: { msMax: settleGatherMsMax, moreCome: (waiting) => this.open.size + this.reserving > waiting },
      commit: (settlements) => this.commitSettlements(settlements),
    })
  }

  start(): void {
    this.upkeep.start()
  }

  /** Waits for running work, at most 10 s. */
  async stop(): Promise<void> {
    this.upkeep.stop()
    if (this.ending > 0) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.allEnded = resolve
      await waitAtMost(stopWaitMs, promise)
    }
    this.stopping.abort()
    if (this.ending > 0) this.options.log.error('settlements_left', { settlements: this.ending })
  }

  /**
   * `id`: of the request, used once. Refuses with `insufficient_funds`, and with `service_unavailable` when the
   * database is away: then nothing stays reserved.
   */
  async reserve({ id, customerId, amountWei }: Reservation): Promise<Reservation> {
    const reservation = { id, customerId, amountWei, openPlace: -1 }
    let outcome: ReserveOutcome
    this.reserving++
    try {
      outcome = await this.reserves.add(reserveRow(reservation))
    } catch (error) {
      if (isRowFault(error)) throw error
      // The ledger does not know whether the reservation was made, so it releases it to be sure.
      if (!(error instanceof NoRoom)) this.release(reservation)
      this.options.log.warn('reserve_failed', { error: failureName(error) })
      throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
    } finally {
      this.reserving--
    }
    if (outcome === 'insufficient') throw await insufficientFunds(this.db, customerId, amountWei)
    if (outcome !== 'reserved') throw new Error(`a reservation was refused: ${outcome}`)
    this.open.add(reservation)
    return reservation
  }

  /** Refuses with `insufficient_funds` what is more than the account has, before it is reserved in parts. */
  async refuseUncovered(customerId: string, amountWei: bigint): Promise<void> {
    const refused = await uncovered(this.db, customerId, amountWei)
    if (refused !== null) throw refused
  }

  /** Resolves when debit, payout, fee and receipt are on the database's disk. It retries until then. */
  async settle(reservation: Reservation, charge: Charge): Promise<Settled> {
    const chargedWei = chargeOf(charge.actualWei, reservation.amountWei)
    const { shareWei, feeWei } = splitCharge(chargedWei, charge.feeBps)
    const billed = chargedWei > 0n
    const settlement = {
      receipt: { ...charge.receipt, billed, ...marksOf(this.options.macs, charge) },
      completes: charge.completes === undefined ? null : { ...charge.completes, receiptHash: charge.receipt.hash },
      row: settleRow(reservation, {
        chargedWei,
        shareWei,
        feeWei,
        receiptHash: charge.receipt.hash,
        node: charge.nodeId,
        kind: charge.kind,
        held: charge.receipt.status === 'held',
      }),
    }
    let outcome = await this.end(reservation, settlement)
    // A reservation does not wait for the disk, so a crashed database may have lost it although the work was done.
    if (outcome === 'unknown' && (await this.reservedAgain(reservation))) {
      outcome = await this.end(reservation, settlement)
    }
    if (outcome === 'settled') return { outcome, chargedWei }
    this.options.log.warn('settled_too_late', { outcome, charged_wei: chargedWei.toString() })
    return { outcome: 'closed', chargedWei: 0n }
  }

  /** Resolves once accepted. It retries until it is done. */
  release(reservation: Reservation): void {
    void this.end(reservation, { receipt: null, completes: null, row: settleRow(reservation, released) }).catch(
      (error: unknown) => this.options.log.error('release_failed', { error: failureName(error) }),
    )
  }

  /** For the metrics: the last read of the books and the work since the start. */
  state(): LedgerState {
    const [a, b] = [this.reserves.counts(), this.settles.counts()]
    return {
      ...this.upkeep.state(),
      groups: a.groups + b.groups,
      requests: a.requests + b.requests,
      waiting: a.waiting + b.waiting,
    }
  }

  /** Releases reservations whose renewals stopped and resolves with their number. It also runs every minute. */
  sweep(): Promise<number> {
    return this.upkeep.sweep()
  }

  /** All sums, at the question or after it. Reads the whole ledger, for one caller or for many. */
  books(): Promise<Books> {
    return this.upkeep.books()
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

  private async commitSettlements(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    const receipts = settlements.flatMap(({ receipt }) => (receipt === null ? [] : [receipt]))
    const rows = settlements.map(({ row }) => row)
    const { groupFrom } = this.options
    // One statement is one commit and one round trip. Only idempotency keys need a transaction around it.
    if (settlements.every(({ completes }) => completes === null))
      return settleAll(this.statements, rows, receipts, groupFrom)
    return this.db.transaction(async (tx) => {
      const outcomes = await settleAll(tx, rows, receipts, groupFrom)
      const completed = settlements.flatMap(({ completes }, at) =>
        completes === null || outcomes[at] !== 'settled' ? [] : [completes],
      )
      await completeKeys(tx, completed)
      return outcomes
    })
  }

  /** The work is done, so this retries until the database has accepted the charge. Repeating a charge does no harm. */
  private end(reservation: Reservation, settlement: Settlement): Promise<SettleOutcome> {
    return this.untilTaken(() => this.settles.add(settlement)).finally(() => this.closed(reservation))
  }

  /** Returns false if the account no longer has enough. */
  private async reservedAgain(reservation: Reservation): Promise<boolean> {
    this.options.log.warn('reservation_lost')
    const row = reserveRow(reservation)
    return (await this.untilTaken(() => this.reserves.add(row))) === 'reserved'
  }

  private untilTaken<R>(work: () => Promise<R>): Promise<R> {
    this.ending++
    return this.retried(work).finally(() => {
      this.ending--
      if (this.ending === 0) this.allEnded?.()
    })
  }

  /** One of another gateway, or of an earlier start, is not among the open ones. */
  private closed(reservation: Reservation): void {
    if ('openPlace' in reservation) this.open.delete(reservation as OpenReservation)
  }

  /** What the database will never take, and what it does not take while this gateway stops, is not tried again. */
  private notSettled(error: unknown, failures: number): void {
    const { log } = this.options
    if (isRowFault(error) || this.stopping.signal.aborted) {
      log.error('settle_failed', { error: failureName(error) })
      throw error
    }
    if (failures === 1) log.warn('settle_waits', { error: failureName(error) })
  }
}
