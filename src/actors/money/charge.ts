import type { Database } from '../../db/client.ts'
import type { Executor } from '../../db/prepared.ts'
import {
  type ClaimedKey,
  completeKeys,
  type IdempotentOutcome,
  type KeyedCharge,
  keepChargedKeys,
} from '../../db/queries/accounts/idempotency.ts'
import type { LeasedCharge, LeasedOutcome } from '../../db/queries/money/leased-charges.ts'
import { type SettleOutcome, type SettleRow, settleAll } from '../../db/queries/money/ledger.ts'
import type { MarkedReceipt, NewReceipt } from '../../db/queries/money/receipts.ts'
import { newId } from '../../ids.ts'
import { chargeOf, splitCharge } from '../../machines/rules/pricing.ts'
import type { WorkKind } from '../../protocol/wire/work-kinds.ts'
import type { GroupCommit, Waiting } from '../durable/group-commit.ts'
import type { UntilTaken } from '../durable/until-taken.ts'
import { type MarkedPrices, type ReceiptMacs, receiptSubject } from '../log/receipt-macs.ts'
import type { CustomerLease, LeasedReservation } from './customer-lease.ts'
import { type Reservation, released, settleRow } from './reservation.ts'

/** The charge for the work. */
export interface Charge {
  /** The price before the reservation caps it. 0 releases everything. */
  readonly actualWei: bigint
  readonly receipt: NewReceipt
  readonly nodeId: string
  /** For whom the node worked: the share is that owner's, whatever becomes of the node before the commit. null: its owner at the commit. */
  readonly ownerId: string | null
  readonly kind: WorkKind
  /** The operator's part, in basis points. */
  readonly feeBps: number
  /** Of the quote. */
  readonly prices?: MarkedPrices
  /** Set if the request had an idempotency key. The same transaction completes the key with this usage. */
  readonly completes?: Pick<IdempotentOutcome, 'key' | 'usage'>
  /** Of a request with several charges: in the same transaction it is not free any more. */
  readonly keeps?: ClaimedKey
}

export interface Settled {
  /**
   * `closed` means that the reservation had already ended, because its gateway was cut off for long. Nothing was
   * debited.
   */
  readonly outcome: 'settled' | 'closed'
  readonly chargedWei: bigint
}

/** One that has not ended, of this gateway. */
export interface OpenReservation extends LeasedReservation {
  openPlace: number
  isClosed: boolean
  /** What it counts at; null: nothing is leased of its customer. */
  readonly at: CustomerLease | null
  /** Of a charge under a lease, which a second call for the same one joins. */
  settling: Promise<Settled> | null
}

/** `at`: what it counts at. */
export const openReservation = (
  { id, customerId, amountWei }: Reservation,
  at: CustomerLease | null,
): OpenReservation => ({
  id,
  customerId,
  amountWei,
  at,
  openPlace: -1,
  isClosed: false,
  settling: null,
  lease: null,
  leaseId: '',
  leasePlace: -1,
  entry: newId('led'),
  reservedAtMs: 0,
})

/** Not one of another gateway, or of an earlier start. */
export const isOpen = (reservation: Reservation): reservation is OpenReservation => 'openPlace' in reservation

export interface Settlement {
  readonly row: SettleRow
  readonly receipt: MarkedReceipt | null
  readonly completes: IdempotentOutcome | null
  /** null: it is no charge, or the only one of its request. */
  readonly keeps: KeyedCharge | null
}

/** A receipt with its marks. Its own is made when it is asked for: as one of a group it needs none. */
class IssuedReceipt implements MarkedReceipt {
  readonly hash: string
  readonly text: string
  readonly customerId: string
  readonly signature: NewReceipt['signature']
  readonly nodeReceipt: NewReceipt['nodeReceipt']
  readonly status: NewReceipt['status']
  readonly facts: NewReceipt['facts']
  readonly price: string | undefined
  private made: string | null = null

  constructor(
    { receipt, prices }: Charge,
    readonly billed: boolean,
    private readonly macs: ReceiptMacs,
  ) {
    this.hash = receipt.hash
    this.text = receipt.text
    this.customerId = receipt.customerId
    this.signature = receipt.signature
    this.nodeReceipt = receipt.nodeReceipt
    this.status = receipt.status
    this.facts = receipt.facts
    this.price = prices === undefined ? undefined : macs.priced(receipt.hash, prices)
  }

  get mac(): string {
    this.made ??= this.macs.of(receiptSubject(this))
    return this.made
  }
}

export function settlementOf(reservation: Reservation, charge: Charge, macs: ReceiptMacs): Settlement {
  const chargedWei = chargeOf(charge.actualWei, reservation.amountWei)
  const { shareWei, feeWei } = splitCharge(chargedWei, charge.feeBps)
  const billed = chargedWei > 0n
  return {
    receipt: new IssuedReceipt(charge, billed, macs),
    completes: charge.completes === undefined ? null : { ...charge.completes, receiptHash: charge.receipt.hash },
    keeps: charge.keeps === undefined || !billed ? null : { key: charge.keeps, receiptHash: charge.receipt.hash },
    row: settleRow(reservation, {
      chargedWei,
      shareWei,
      feeWei,
      receiptHash: charge.receipt.hash,
      node: charge.nodeId,
      owner: charge.ownerId,
      kind: charge.kind,
      held: charge.receipt.status === 'held',
    }),
  }
}

/** Gives all of it back. */
export const releaseOf = (reservation: Reservation, completes: Settlement['completes'] = null): Settlement => ({
  receipt: null,
  completes,
  keeps: null,
  row: settleRow(reservation, released),
})

/** What charges under leases share. */
export interface LeasedCharges {
  readonly settles: GroupCommit<LeasedCharge, LeasedOutcome>
  readonly ends: UntilTaken
  readonly closed: (reservation: OpenReservation) => void
  /** Of one that is not under its lease any more. */
  readonly settleRow: (reservation: OpenReservation, settlement: Settlement) => Promise<Settled>
}

/**
 * A charge under a lease on its way to the database. One object and one promise: by functions that wait for each other it was fourteen
 * promises, and a fifth of what a paid request costs this process more than a free one.
 */
export class LeasedSettlement implements LeasedCharge, Waiting<LeasedCharge, LeasedOutcome> {
  readonly sentIn: string[] = []
  private lease: CustomerLease | null = null
  private beganMs = 0

  constructor(
    private readonly shared: LeasedCharges,
    readonly reservation: OpenReservation,
    readonly row: SettleRow,
    readonly receipt: MarkedReceipt,
    private readonly settled: (settled: Settled | Promise<Settled>) => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  get request(): LeasedCharge {
    return this
  }

  begin(): void {
    const { shared, reservation } = this
    const { lease } = reservation
    const ends = lease?.ends ?? null
    if (ends !== null) return void ends.then(() => this.begin())
    if (lease === null) return this.asRow()
    this.lease = lease
    this.beganMs = lease.charges()
    shared.ends.began()
    shared.settles.enter(this)
  }

  resolve(outcome: LeasedOutcome): void {
    const { shared, reservation, row } = this
    // Of the others one was charged before or has no lease: they are answered by that, so that fewer are sent with this one now.
    if (outcome === 'again') return shared.settles.enter(this)
    this.lease?.charged(reservation, outcome, row.chargedWei, this.beganMs)
    shared.ends.ended()
    if (outcome === 'unknown') return this.asRow()
    shared.closed(reservation)
    this.settled({ outcome, chargedWei: row.chargedWei })
  }

  reject(error: unknown): void {
    const { shared, reservation } = this
    shared.ends
      .again(error, () => shared.settles.add(this))
      .then(
        (outcome) => this.resolve(outcome),
        (final: unknown) => {
          this.lease?.charged(reservation, null, 0n, this.beganMs)
          shared.ends.ended()
          shared.closed(reservation)
          this.failed(final)
        },
      )
  }

  private asRow(): void {
    const { shared, reservation, row, receipt } = this
    this.settled(shared.settleRow(reservation, { row, receipt, completes: null, keeps: null }))
  }
}

/**
 * Commits charges and releases with their receipts, and answers them in order. `groupFrom`: see `LedgerOptions`.
 * One statement is one commit and one round trip. Only idempotency keys need a transaction around it.
 */
export async function commitSettlements(
  db: Database,
  statements: Executor,
  settlements: readonly Settlement[],
  groupFrom?: number,
): Promise<readonly SettleOutcome[]> {
  const receipts = settlements.flatMap(({ receipt }) => (receipt === null ? [] : [receipt]))
  const rows = settlements.map(({ row }) => row)
  if (settlements.every(({ completes, keeps }) => completes === null && keeps === null))
    return settleAll(statements, rows, receipts, groupFrom)
  return db.transaction(async (tx) => {
    const outcomes = await settleAll(tx, rows, receipts, groupFrom)
    const settled = settlements.filter((_, at) => outcomes[at] === 'settled')
    await keepChargedKeys(
      tx,
      settled.flatMap(({ keeps }) => keeps ?? []),
    )
    await completeKeys(
      tx,
      settled.flatMap(({ completes }) => completes ?? []),
    )
    return outcomes
  })
}
