import { bigint, boolean, numeric, pgView, text } from 'drizzle-orm/pg-core'
import type { CustomerId, NodeId } from '../../../ids.ts'
import { instant } from '../../columns.ts'
import type { feeRows, ledgerRows, payoutRows } from '../ledger.ts'

type Entry = typeof ledgerRows.$inferSelect
type Payout = typeof payoutRows.$inferSelect
type Fee = typeof feeRows.$inferSelect

const wei = () => numeric({ precision: 78, scale: 0, mode: 'bigint' })
const seq = () => bigint({ mode: 'bigint' })

/*
 * Charges stand as rows and in groups (`charge_groups`), and these views have both. drizzle-kit knows no such view: their SQL is the
 * migration `…_charge_groups`, and the two must be changed together.
 */

/** Every entry of the ledger, with the ends of its group: a question for a range of seq leaves groups out by them. */
export const ledgerEntries = pgView('ledger_entries', {
  entryId: text().notNull(),
  seq: seq().notNull(),
  customerId: text().$type<CustomerId>().notNull(),
  kind: text().$type<Entry['kind']>().notNull(),
  amountWei: wei().notNull(),
  balanceAfterWei: wei().notNull(),
  reservedAfterWei: wei().notNull(),
  reservationId: text(),
  privateJobId: text(),
  receiptHash: text(),
  reason: text(),
  createdAt: instant().notNull(),
  groupFirstSeq: seq().notNull(),
  groupLastSeq: seq().notNull(),
}).existing()

/** Every node's share. */
export const payouts = pgView('payouts', {
  entryId: text().notNull(),
  nodeId: text().$type<NodeId>().notNull(),
  receiptHash: text().notNull(),
  kind: text().$type<Payout['kind']>().notNull(),
  privateJobId: text(),
  amountWei: wei().notNull(),
  grossWei: wei().notNull(),
  held: boolean().notNull(),
  earnedHeld: boolean().notNull(),
  settlementStatus: text().$type<Payout['settlementStatus']>().notNull(),
  batchId: text(),
  earnedPayee: text(),
  payee: text(),
  settledAt: instant(),
  createdAt: instant().notNull(),
  updatedAt: instant().notNull(),
  /** The group that has it still; null: it is a row. */
  groupLastSeq: seq(),
}).existing()

/** Every fee. */
export const protocolFees = pgView('protocol_fees', {
  entryId: text().notNull(),
  receiptHash: text().notNull(),
  privateJobId: text(),
  amountWei: wei().notNull(),
  status: text().$type<Fee['status']>().notNull(),
  createdAt: instant().notNull(),
}).existing()
