import { sql } from 'drizzle-orm'
import { bigint, boolean, index, integer, pgTable, text, uniqueIndex } from 'drizzle-orm/pg-core'
import type { CustomerId, NodeId, RuntimeId } from '../../ids.ts'
import { createdAt, instant } from '../columns.ts'

/** What a receipt's hash covers, in the table and in the view of all. */
export const receiptFacts = () => ({
  issuer: text({ enum: ['node', 'gateway'] }).notNull(),
  requestId: text().notNull(),
  jobId: text(),
  kind: text({
    enum: [
      'hosted_chat',
      'hosted_embedding',
      'hosted_rerank',
      'hosted_audio',
      'hosted_image',
      'hosted_sealed',
      'private_job',
    ],
  }).notNull(),
  nodeId: text().$type<NodeId>().notNull(),
  nodeClass: text().notNull(),
  runtimeId: text().$type<RuntimeId>().notNull(),
  runtimeKind: text().notNull(),
  modelId: text().notNull(),
  promptTokens: integer().notNull(),
  completionTokens: integer().notNull(),
  startedAt: instant().notNull(),
  completedAt: instant().notNull(),
  /** Of v2 alone (§31): null in a receipt v1. */
  clientNonce: text(),
  requestCommitment: text(),
  responseCommitment: text(),
  upstreamModelCommitment: text(),
  /** Of v3 alone (§36): null in a receipt v1 or v2. */
  issuedAt: instant(),
})

/**
 * From when gateways issue receipts of a version that the version before them cannot read (docs/decisions/0039), and from when they write those of
 * leased charges in groups (`grouped-charges`, docs/decisions/0056).
 */
export const receiptVersions = pgTable('receipt_versions', {
  version: text().primaryKey(),
  issuedFrom: instant().notNull(),
})

/**
 * The facts of one metered (sub-)call (§14), without money and content. The hash covers all but what follows the time of the issue. Here stand
 * those that are held, of jobs, bound to a nonce, or paid for without a lease; the others stand in groups, and the view `receipts` has both
 * (docs/decisions/0025, 0056).
 */
export const receiptRows = pgTable(
  'receipt_rows',
  {
    receiptHash: text().primaryKey(),
    /** The order in which receipts were written, by which the log takes them (§31). */
    seq: bigint({ mode: 'bigint' }).generatedAlwaysAsIdentity(),
    ...receiptFacts(),
    customerId: text().$type<CustomerId>().notNull(),
    /** The node's, over the hash (§14), base64url; null for what the gateway issued itself. */
    signatureEd25519: text(),
    /** Beside one of the gateway's own: what the node signed instead, as JSON of receipt, hash and signature. */
    nodeReceipt: text(),
    status: text({ enum: ['accepted', 'held', 'rejected', 'batched', 'finalized'] })
      .notNull()
      .default('accepted'),
    /** Paid for. The rest is its owner's own affair and stands in no public list. */
    billed: boolean().notNull().default(false),
    batchId: text(),
    createdAt: createdAt(),
    /** By which the log knows that a process with the secrets issued it (§36); null: a gateway of a version before wrote it. */
    mac: text(),
    /** Of what was billed: the prices of its quote, with a mark of their own (§36); null: a gateway of a version before wrote it. */
    price: text(),
  },
  (t) => [
    index('receipts_billed_index').on(t.createdAt).where(sql`billed`),
    // Few at any time: each waits for an admin.
    index('receipts_held_index').on(t.createdAt).where(sql`status = 'held'`),
    uniqueIndex('receipts_seq_index').on(t.seq),
  ],
)
