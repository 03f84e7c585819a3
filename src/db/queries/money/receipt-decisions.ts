import { and, type Column, eq, sql } from 'drizzle-orm'
import type { CustomerId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import { customers } from '../../schema/accounts.ts'
import { feeRows, ledgerRows, payoutRows } from '../../schema/ledger.ts'
import { receiptRows } from '../../schema/work.ts'
import { lockLedger } from './ledger.ts'

/** `not_held`: it is not on hold, or was given back before. `batched`, `no_debit`: somebody has changed the rows by hand. */
type Refused = 'unknown' | 'not_held' | 'batched' | 'no_debit'

export type ReceiptDecision = 'accepted' | 'rejected'

interface Debit {
  readonly customerId: CustomerId
  readonly reservationId: string
  readonly privateJobId: string | null
  readonly amountWei: bigint
}

/** A billed receipt and, where it may be decided on, its payout: locked in this order, as a charge writes them (§13). */
async function lockReceipt(tx: Database, receiptHash: string, open: readonly string[]) {
  const [receipt] = await tx
    .select({ status: receiptRows.status, customerId: receiptRows.customerId, createdAt: receiptRows.createdAt })
    .from(receiptRows)
    .where(and(eq(receiptRows.receiptHash, receiptHash), eq(receiptRows.billed, true)))
    .for('update')
  if (receipt === undefined) return (await isInGroup(tx, receiptHash)) ? 'not_held' : 'unknown'
  if (!open.includes(receipt.status)) return 'not_held'
  const [payout] = await tx
    .select({ status: payoutRows.settlementStatus, batchId: payoutRows.batchId })
    .from(payoutRows)
    .where(eq(payoutRows.receiptHash, receiptHash))
    .for('update')
  // Of a receipt on hold none ever is: what is on its way to the chain cannot be taken back.
  const batched = payout !== undefined && (payout.batchId !== null || !['pending', 'void'].includes(payout.status))
  return batched ? 'batched' : receipt
}

/** What stands in a group of charges was never held. */
async function isInGroup(tx: Database, receiptHash: string): Promise<boolean> {
  const rows = await tx.execute(
    sql`select 1 from receipt_groups where last_seq = receipt_group_of(${receiptHash}) and billed`,
  )
  return rows.length > 0
}

const setStatus = (tx: Database, receiptHash: string, status: 'accepted' | 'rejected') =>
  tx.update(receiptRows).set({ status }).where(eq(receiptRows.receiptHash, receiptHash))

const setPayout = (tx: Database, receiptHash: string, change: { held: false } | { settlementStatus: 'void' }) =>
  tx
    .update(payoutRows)
    .set({ ...change, updatedAt: sql`now()` })
    .where(eq(payoutRows.receiptHash, receiptHash))

async function releaseReceipt(tx: Database, receiptHash: string): Promise<bigint | Refused> {
  const receipt = await lockReceipt(tx, receiptHash, ['held'])
  if (typeof receipt === 'string') return receipt
  await setStatus(tx, receiptHash, 'accepted')
  await setPayout(tx, receiptHash, { held: false })
  return 0n
}

/**
 * The customer has its debit back, and neither node nor operator gets anything: debits = payouts + fees + refunds. A receipt that was
 * rejected by a version without refunds is given back as well.
 */
async function rejectReceipt(tx: Database, receiptHash: string, entryId: string): Promise<bigint | Refused> {
  await lockLedger(tx)
  const receipt = await lockReceipt(tx, receiptHash, ['held', 'rejected'])
  if (typeof receipt === 'string') return receipt
  if (await wasRefunded(tx, receiptHash)) return 'not_held'
  const debit = await debitOf(tx, receiptHash, receipt)
  if (debit === null) return 'no_debit'
  await setStatus(tx, receiptHash, 'rejected')
  await setPayout(tx, receiptHash, { settlementStatus: 'void' })
  await tx
    .update(feeRows)
    .set({ status: 'refunded' })
    .where(and(eq(feeRows.receiptHash, receiptHash), since(feeRows.createdAt, receipt.createdAt)))
  await insertRefund(tx, debit, receiptHash, entryId)
  return debit.amountWei
}

async function wasRefunded(tx: Database, receiptHash: string): Promise<boolean> {
  const rows = await tx
    .select({ entryId: ledgerRows.entryId })
    .from(ledgerRows)
    .where(and(sql.raw(`kind = ${kindText('refund')}`), eq(ledgerRows.receiptHash, receiptHash)))
  return rows.length > 0
}

/**
 * What may be decided on is never part of a group of charges. No index leads from a receipt to its debit and its fee: each would cost every charge. They were written with the receipt or after it,
 * and a day is more than a server's clock is ever put back.
 */
const since = (column: Column, at: Date) => sql`${column} >= ${at.toISOString()}::timestamptz - interval '1 day'`

async function debitOf(
  tx: Database,
  receiptHash: string,
  { customerId, createdAt }: { readonly customerId: CustomerId; readonly createdAt: Date },
): Promise<Debit | null> {
  const [debit] = await tx
    .select({
      customerId: ledgerRows.customerId,
      reservationId: ledgerRows.reservationId,
      privateJobId: ledgerRows.privateJobId,
      amountWei: ledgerRows.amountWei,
    })
    .from(ledgerRows)
    .where(
      and(
        eq(ledgerRows.customerId, customerId),
        eq(ledgerRows.kind, 'debit'),
        eq(ledgerRows.receiptHash, receiptHash),
        since(ledgerRows.createdAt, createdAt),
      ),
    )
    .orderBy(ledgerRows.createdAt, ledgerRows.seq)
    .limit(1)
  const reservationId = debit?.reservationId ?? null
  return debit === undefined || reservationId === null ? null : { ...debit, reservationId }
}

/** The customer is locked last, as by a charge. Fails with 23505 where the debit was given back before. */
async function insertRefund(tx: Database, debit: Debit, receiptHash: string, entryId: string): Promise<void> {
  const [after] = await tx
    .update(customers)
    .set({ balanceWei: sql`${customers.balanceWei} + ${debit.amountWei.toString()}::numeric` })
    .where(eq(customers.customerId, debit.customerId))
    .returning({ balanceWei: customers.balanceWei, reservedWei: customers.reservedWei })
  if (after === undefined) throw new Error('a customer was not refunded')
  await tx.insert(ledgerRows).values({
    ...debit,
    entryId,
    kind: 'refund',
    balanceAfterWei: after.balanceWei,
    reservedAfterWei: after.reservedWei,
    receiptHash,
    createdAt: sql`clock_timestamp()`,
  })
}

/**
 * Accepted, the node is paid after all; rejected, the customer has its debit back. Resolves with what it got back. Two who decide at
 * once wait for each other at the receipt's row, and the second finds it decided.
 */
export const decideReceipt = (
  tx: Database,
  receiptHash: string,
  decision: ReceiptDecision,
  refundId: string,
): Promise<bigint | Refused> =>
  decision === 'accepted' ? releaseReceipt(tx, receiptHash) : rejectReceipt(tx, receiptHash, refundId)
