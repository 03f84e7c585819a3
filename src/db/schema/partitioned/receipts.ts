import { bigint, boolean, pgView, text } from 'drizzle-orm/pg-core'
import type { CustomerId } from '../../../ids.ts'
import { instant } from '../../columns.ts'
import { receiptFacts, type receiptRows } from '../work.ts'

type Row = typeof receiptRows.$inferSelect

/**
 * Every receipt, of `receipt_rows` and out of `receipt_groups`, with the ends of its group: a question for a range of seq leaves groups out by
 * them. What became of one in a group that was paid for is what its payout says. drizzle-kit knows no such view: its SQL is the migration
 * `…_charged_receipts`, and the two must be changed together.
 */
export const receipts = pgView('receipts', {
  receiptHash: text().notNull(),
  seq: bigint({ mode: 'bigint' }).notNull(),
  ...receiptFacts(),
  customerId: text().$type<CustomerId>().notNull(),
  signatureEd25519: text(),
  nodeReceipt: text(),
  status: text().$type<Row['status']>().notNull(),
  billed: boolean().notNull(),
  batchId: text(),
  createdAt: instant().notNull(),
  groupFirstSeq: bigint({ mode: 'bigint' }).notNull(),
  groupLastSeq: bigint({ mode: 'bigint' }).notNull(),
}).existing()
