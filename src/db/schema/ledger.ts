import { sql } from 'drizzle-orm'
import { bigint, boolean, check, index, numeric, pgTable, text, uniqueIndex } from 'drizzle-orm/pg-core'
import type { CustomerId, NodeId } from '../../ids.ts'
import { kindNames, kindOf, type LedgerKind } from '../../protocol/money/kinds.ts'
import { createdAt, instant } from '../columns.ts'
import { kindTexts } from '../kind-texts.ts'
import { customers } from './accounts.ts'

const withoutReservation = kindNames.filter((kind) => !kindOf(kind).refersTo.includes('reservation'))
const undecided = kindNames.filter((kind) => kindOf(kind).action === null)

const wei = () => numeric({ precision: 78, scale: 0, mode: 'bigint' })

/**
 * What happened to a customer's money, in order (§13). Append-only: a trigger refuses every change. `amount` is
 * a magnitude, whose direction the kind gives (`protocol/money/kinds.ts`). Here stand the entries that are not part of a group of
 * charges, and the view `ledger_entries` has both (docs/decisions/0035).
 */
export const ledgerRows = pgTable(
  'ledger_rows',
  {
    entryId: text().primaryKey(),
    /** The order in which entries were made; of one customer's it is the order of its balances. */
    seq: bigint({ mode: 'bigint' }).generatedAlwaysAsIdentity({ name: 'ledger_entries_seq_seq' }),
    customerId: text()
      .$type<CustomerId>()
      .notNull()
      .references(() => customers.customerId),
    kind: text().$type<LedgerKind>().notNull(),
    amountWei: wei().notNull(),
    balanceAfterWei: wei().notNull(),
    reservedAfterWei: wei().notNull(),
    /** Of a refund, that of its debit. */
    reservationId: text(),
    /** Job ids only; null for chat. */
    privateJobId: text(),
    receiptHash: text(),
    reason: text(),
    createdAt: createdAt(),
  },
  (t) => [
    index('ledger_entries_customer_id_created_at_seq_index').on(t.customerId, t.createdAt, t.seq),
    // By which the log takes them (§31).
    uniqueIndex('ledger_entries_seq_index').on(t.seq),
    // A reservation is made once, and what becomes of it is written once.
    uniqueIndex('ledger_entries_reservation_id_kind_index').on(t.reservationId, t.kind),
    index('ledger_entries_created_at_index').on(t.createdAt).where(sql`kind = 'debit'`),
    // A debit is given back once (§14).
    uniqueIndex('ledger_entries_refund').on(t.receiptHash).where(sql`kind = 'refund'`),
    // What operators decided on is rare among all that requests write, and the log looks for what it lacks of it (§31).
    index('ledger_entries_decided')
      .on(t.kind, t.seq)
      .where(sql`kind not in ${sql.raw(kindTexts(undecided))}`),
    check('ledger_amount_positive', sql`${t.amountWei} > 0`),
    check(
      'ledger_reserved_within_balance',
      sql`0 <= ${t.reservedAfterWei} and ${t.reservedAfterWei} <= ${t.balanceAfterWei}`,
    ),
    check(
      'ledger_reservation_of_kind',
      sql`(${t.kind} in ${sql.raw(kindTexts(withoutReservation))}) = (${t.reservationId} is null)`,
    ),
  ],
)

/** Money set aside before the work, until the outcome is known. */
export const reservations = pgTable(
  'reservations',
  {
    /** Of the request or job that it is for. */
    reservationId: text().primaryKey(),
    customerId: text()
      .$type<CustomerId>()
      .notNull()
      .references(() => customers.customerId),
    amountWei: wei().notNull(),
    status: text({ enum: ['open', 'settled', 'released'] })
      .notNull()
      .default('open'),
    /** What was debited; null while open. */
    settledWei: wei(),
    receiptHash: text(),
    privateJobId: text(),
    createdAt: createdAt(),
    /** Its gateway renews it while the work runs; after this it is released. */
    expiresAt: instant().notNull(),
    closedAt: instant(),
  },
  (t) => [
    index().on(t.expiresAt).where(sql`status = 'open'`),
    check('reservation_amount_positive', sql`${t.amountWei} > 0`),
    check('reservation_settled_within', sql`0 <= ${t.settledWei} and ${t.settledWei} <= ${t.amountWei}`),
    check('reservation_closed_once', sql`(${t.status} = 'open') = (${t.settledWei} is null)`),
  ],
)

/**
 * A part of a customer's balance that one process of a gateway may reserve in memory (docs/decisions/0051). `left_wei` counts in the
 * customer's `leased_wei` and becomes less with each charge. When it ends, all of it is free again.
 */
export const moneyLeases = pgTable(
  'money_leases',
  {
    leaseId: text().primaryKey(),
    customerId: text()
      .$type<CustomerId>()
      .notNull()
      .references(() => customers.customerId),
    leftWei: wei().notNull(),
    /** Its gateway renews it; after this anybody may end it. */
    endsAt: instant().notNull(),
    /** The number of the last call that charged under it. One that is no larger was given up and comes too late (docs/decisions/0056). */
    calls: bigint({ mode: 'bigint' }).notNull().default(sql`0`),
  },
  (t) => [index().on(t.customerId), check('money_lease_not_overspent', sql`${t.leftWei} >= 0`)],
)

/** From when on money is leased: an hour after the upgrade, as gateways of the version before count none of it in what is reserved. */
export const moneyLeaseStart = pgTable('money_lease_start', { beginsAt: instant().primaryKey() })

/**
 * A node's share of one debit (§14). `settlement_status` is the resting state of the payout's chart, moved with
 * its batch; `void`: an operator rejected the receipt, and it is not paid. Shares of groups of charges become rows when a batch takes one of
 * them; the view `payouts` has both (docs/decisions/0035).
 */
export const payoutRows = pgTable(
  'payout_rows',
  {
    entryId: text().primaryKey(),
    nodeId: text().$type<NodeId>().notNull(),
    receiptHash: text().notNull().unique('payouts_receiptHash_unique'),
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
    privateJobId: text(),
    amountWei: wei().notNull(),
    /** Share and fee. */
    grossWei: wei().notNull(),
    /** The receipt is held: not paid out until an operator released it. */
    held: boolean().notNull().default(false),
    /** Whether it was, when it was earned. Never changed: the log holds it. */
    earnedHeld: boolean().notNull().default(false),
    settlementStatus: text({ enum: ['pending', 'batched', 'submitting', 'submitted', 'finalized', 'void'] })
      .notNull()
      .default('pending'),
    batchId: text(),
    /** The node's address when it was earned; null: it had none. Never changed (§31). */
    earnedPayee: text(),
    /** Who is paid: the one of the earning, else the first address that the node has at a batch. */
    payee: text(),
    settledAt: instant(),
    createdAt: createdAt(),
    updatedAt: createdAt(),
  },
  (t) => [
    index('payouts_node_id_created_at_index').on(t.nodeId, t.createdAt),
    index('payouts_created_at_index').on(t.createdAt).where(sql`settlement_status = 'pending' and not held`),
    index('payouts_batch_id_index').on(t.batchId).where(sql`batch_id is not null`),
    check('payout_amount_positive', sql`${t.amountWei} > 0 and ${t.amountWei} <= ${t.grossWei}`),
    check('payout_batch_of_status', sql`(${t.settlementStatus} in ('pending', 'void')) = (${t.batchId} is null)`),
  ],
)

/**
 * The operator's part of each debit. `refunded`: the receipt was rejected, and the customer has it back. `kept`: of a receipt that a
 * version without refunds rejected, where share and fee stayed with the operator. The view `protocol_fees` has those of groups of charges, too.
 */
export const feeRows = pgTable(
  'fee_rows',
  {
    entryId: text().primaryKey(),
    receiptHash: text().notNull(),
    privateJobId: text(),
    amountWei: wei().notNull(),
    status: text({ enum: ['earned', 'kept', 'refunded'] })
      .notNull()
      .default('earned'),
    createdAt: createdAt(),
  },
  (t) => [
    index('protocol_fees_created_at_index').on(t.createdAt),
    check('fee_amount_positive', sql`${t.amountWei} > 0`),
  ],
)
