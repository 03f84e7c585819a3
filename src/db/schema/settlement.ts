import { sql } from 'drizzle-orm'
import { bigint, boolean, check, index, integer, jsonb, numeric, pgTable, text } from 'drizzle-orm/pg-core'
import { createdAt, instant } from '../columns.ts'

/** A transaction as it was signed, kept before it is sent, so that a crash sends the same one again. */
export interface SignedTransaction {
  readonly hash: string
  /** `0x` and the hex of the signed envelope. */
  readonly raw: string
}

/** Payouts that go to the chain under one root. `status` is the resting state of its chart (`machines/payout-batch.ts`). */
export const payoutBatches = pgTable(
  'payout_batches',
  {
    batchId: text().primaryKey(),
    status: text({ enum: ['created', 'submitting', 'submitted', 'completed'] })
      .notNull()
      .default('created'),
    merkleRoot: text().notNull(),
    /** What a payout's id in the leaves is: the hash of its entry's id (1), or its receipt's hash (2, §31). */
    leafVersion: integer().notNull().default(1),
    payoutCount: integer().notNull(),
    totalAmountWei: numeric({ precision: 78, scale: 0, mode: 'bigint' }).notNull(),
    /** Reverts so far; at 3 the batch is held for an operator. */
    attempts: integer().notNull().default(0),
    held: boolean().notNull().default(false),
    lastError: text(),
    /** Of the account that submits; all transactions of the batch have it. */
    txNonce: bigint({ mode: 'number' }),
    /** Newest last; any of them may be the one that is included. */
    transactions: jsonb().$type<readonly SignedTransaction[]>().notNull().default([]),
    submittedTxHash: text(),
    settlementBlockNumber: text(),
    settlementBlockHash: text(),
    createdAt: createdAt(),
    submittedAt: instant(),
    finalizedAt: instant(),
    completedAt: instant(),
    nextAttemptAt: instant().notNull().defaultNow(),
    leaseUntil: instant(),
    /** Fences late writers of an earlier lease. */
    leaseId: text(),
  },
  (t) => [
    index().on(t.createdAt),
    index().on(t.nextAttemptAt).where(sql`status <> 'completed'`),
    check('batch_not_empty', sql`${t.payoutCount} > 0 and ${t.totalAmountWei} > 0`),
  ],
)
