import { eq, sql } from 'drizzle-orm'
import type { CustomerId } from '../../../ids.ts'
import type { OperatorKind } from '../../../protocol/money/kinds.ts'
import { balanceAccounts, changeOf } from '../../../protocol/money/moves.ts'
import type { WorkKind } from '../../../protocol/wire/work-kinds.ts'
import { arrayOf } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import type { Executor } from '../../prepared.ts'
import { customers } from '../../schema/accounts.ts'
import { ledgerRows } from '../../schema/ledger.ts'
import { type MarkedReceipt, receiptColumns } from './receipts.ts'

export type LedgerEntry = typeof ledgerRows.$inferSelect

/** From this number of one customer's charges in a commit on they are one row: fewer are as cheap as rows, and dearer to read in groups. */
export const groupFromDefault = 4

export interface ReserveRow {
  readonly id: string
  readonly customer: string
  readonly amountWei: bigint
  readonly entry: string
  readonly job: string | null
}
export type ReserveOutcome = 'reserved' | 'insufficient' | 'conflict' | 'no_customer'

export interface SettleRow {
  readonly id: string
  /** 0 releases the reservation. */
  readonly chargedWei: bigint
  readonly shareWei: bigint
  readonly feeWei: bigint
  readonly receiptHash: string | null
  readonly node: string | null
  /** For whom the node worked; null: for its owner at the commit. */
  readonly owner: string | null
  readonly kind: WorkKind | null
  readonly held: boolean
  /** Ids of the rows that may be written. */
  readonly debit: string
  readonly release: string
  readonly payout: string
  readonly fee: string
}
export type SettleOutcome = 'settled' | 'closed' | 'unknown'

/** The unusual answers, by position from 1. */
type Exceptions<O> = readonly { readonly place: number; readonly outcome: O }[]

const texts = (values: readonly (string | null)[]) => arrayOf('text', values)
const amounts = (values: readonly bigint[]) => arrayOf('numeric', values)
const flags = (values: readonly boolean[]) => arrayOf('boolean', values)

export function inOrder<O>(count: number, usual: O, answer: unknown): readonly O[] {
  const outcomes = new Array<O>(count).fill(usual)
  for (const { place, outcome } of answer as Exceptions<O>) outcomes[place - 1] = outcome
  return outcomes
}

/**
 * One statement, one commit for all, which is on the disk a moment later (at most 0.6 s), or with the next commit that waits
 * for it: of a crash in between the charge hears `unknown`. Ids must differ.
 */
export async function reserveAll(
  db: Executor,
  rows: readonly ReserveRow[],
  ttlMs: number,
): Promise<readonly ReserveOutcome[]> {
  const answer =
    await db.execute(sql`select place, outcome from set_config('synchronous_commit', 'off', true), ledger_reserve(
    ${texts(rows.map(({ id }) => id))}, ${texts(rows.map(({ customer }) => customer))},
    ${amounts(rows.map(({ amountWei }) => amountWei))}, ${texts(rows.map(({ entry }) => entry))},
    ${texts(rows.map(({ job }) => job))}, ${ttlMs}::bigint)`)
  return inOrder<ReserveOutcome>(rows.length, 'reserved', answer)
}

/** One statement and one commit for all charges with their receipts. Ids must differ. `groupFrom`: as `groupFromDefault`. */
export async function settleAll(
  db: Executor,
  rows: readonly SettleRow[],
  receipts: readonly MarkedReceipt[] = [],
  groupFrom: number = groupFromDefault,
): Promise<readonly SettleOutcome[]> {
  const written = receipts.length === 0 ? null : JSON.stringify(receiptColumns(receipts))
  const answer = await db.execute(sql`select place, outcome from ledger_charge(
    ${texts(rows.map(({ id }) => id))}, ${amounts(rows.map(({ chargedWei }) => chargedWei))},
    ${amounts(rows.map(({ shareWei }) => shareWei))}, ${amounts(rows.map(({ feeWei }) => feeWei))},
    ${texts(rows.map(({ receiptHash }) => receiptHash))}, ${texts(rows.map(({ node }) => node))},
    ${texts(rows.map(({ kind }) => kind))}, ${flags(rows.map(({ held }) => held))},
    ${texts(rows.map(({ debit }) => debit))}, ${texts(rows.map(({ release }) => release))},
    ${texts(rows.map(({ payout }) => payout))}, ${texts(rows.map(({ fee }) => fee))}, ${written}::text::json, ${groupFrom}::int,
    ${texts(rows.map(({ owner }) => owner))})`)
  return inOrder<SettleOutcome>(rows.length, 'settled', answer)
}

/** Renews reservations whose work still runs. It waits for none that is being closed: such a one needs no more time. */
export async function renewReservations(db: Database, ids: readonly string[], ttlMs: number): Promise<void> {
  if (ids.length === 0) return
  await db.execute(sql`update reservations o set expires_at = clock_timestamp() + ${ttlMs}::bigint * interval '1 ms'
    from (select r.reservation_id as id from json_array_elements_text(${JSON.stringify(ids)}::text::json) as q (id)
      join reservations r on r.reservation_id = q.id and r.settled_wei is null for update of r skip locked) as q
    where o.reservation_id = q.id`)
}

/** Open reservations without a renewal, oldest first. */
export async function staleReservations(db: Database, limit: number): Promise<readonly string[]> {
  const rows = await db.execute(sql`select reservation_id as id from reservations
    where status = 'open' and expires_at < clock_timestamp() order by expires_at limit ${limit}`)
  return (rows as unknown as readonly { id: string }[]).map(({ id }) => id)
}

/** One that an operator made; the id of others is not known before. */
export async function ledgerEntry(db: Database, entryId: string): Promise<LedgerEntry | null> {
  const [row] = await db.select().from(ledgerRows).where(eq(ledgerRows.entryId, entryId))
  return row ?? null
}

/**
 * Before an entry's seq is drawn: by this lock the log knows who may still commit a smaller one (`readFence`). It is the view's, which
 * gateways of the version before know. Take it before any row is locked, as charges and migrations do: who has a customer and waits for the ledger
 * would wait in a circle with a migration.
 */
export async function lockLedger(tx: Database): Promise<void> {
  await tx.execute(sql`lock table ledger_entries in row exclusive mode`)
}

/**
 * What an operator adds to a balance or takes from it. Call it with the ledger and then the customer's row locked. Fails with 23514 if the balance would
 * not be a uint256, or not cover what is reserved.
 */
export async function insertOperatorEntry(
  tx: Database,
  entry: Pick<LedgerEntry, 'entryId' | 'amountWei' | 'reason'> & {
    readonly kind: OperatorKind
    readonly customerId: string
  },
): Promise<LedgerEntry> {
  const customerId = entry.customerId as CustomerId
  const change = entry.amountWei * BigInt(changeOf(entry.kind, balanceAccounts))
  const [after] = await tx
    .update(customers)
    .set({ balanceWei: sql`${customers.balanceWei} + ${change.toString()}::numeric` })
    .where(eq(customers.customerId, customerId))
    .returning({ balanceAfterWei: customers.balanceWei, reservedAfterWei: customers.reservedWei })
  if (after === undefined) throw new Error('a balance was not changed')
  const [row] = await tx
    .insert(ledgerRows)
    .values({ ...entry, ...after, customerId, createdAt: sql`clock_timestamp()` })
    .returning()
  if (row === undefined) throw new Error('an entry was not inserted')
  return row
}
