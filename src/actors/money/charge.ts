import type { Database } from '../../db/client.ts'
import type { Executor } from '../../db/prepared.ts'
import { completeKeys, type IdempotentOutcome } from '../../db/queries/accounts/idempotency.ts'
import { type SettleOutcome, type SettleRow, settleAll } from '../../db/queries/money/ledger.ts'
import type { MarkedReceipt, NewReceipt } from '../../db/queries/money/receipts.ts'
import { newId } from '../../ids.ts'
import { chargeOf, splitCharge } from '../../machines/rules/pricing.ts'
import type { WorkKind } from '../../protocol/wire/work-kinds.ts'
import { type MarkedPrices, type ReceiptMacs, receiptSubject } from '../log/receipt-macs.ts'
import type { CustomerLease, LeasedReservation } from './customer-lease.ts'
import { type Reservation, settleRow } from './reservation.ts'

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
}

/** The receipt with its marks. Its own is made when it is asked for: as one of a group it needs none. */
function issued({ receipt, prices }: Charge, billed: boolean, macs: ReceiptMacs): MarkedReceipt {
  let mac: string | null = null
  return {
    ...receipt,
    billed,
    ...(prices === undefined ? {} : { price: macs.priced(receipt.hash, prices) }),
    get mac() {
      mac ??= macs.of(receiptSubject(receipt))
      return mac
    },
  }
}

export function settlementOf(reservation: Reservation, charge: Charge, macs: ReceiptMacs): Settlement {
  const chargedWei = chargeOf(charge.actualWei, reservation.amountWei)
  const { shareWei, feeWei } = splitCharge(chargedWei, charge.feeBps)
  const billed = chargedWei > 0n
  return {
    receipt: issued(charge, billed, macs),
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
  if (settlements.every(({ completes }) => completes === null)) return settleAll(statements, rows, receipts, groupFrom)
  return db.transaction(async (tx) => {
    const outcomes = await settleAll(tx, rows, receipts, groupFrom)
    const completed = settlements.flatMap(({ completes }, at) =>
      completes === null || outcomes[at] !== 'settled' ? [] : [completes],
    )
    await completeKeys(tx, completed)
    return outcomes
  })
}
