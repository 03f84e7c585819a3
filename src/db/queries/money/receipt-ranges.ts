import { type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'

/** A group's numbers lie closer together than this: the constraint `receipt_groups_close`. */
const groupSeqsMax = 100_000
/** Groups that were written at once may have begun before those that are named first. */
const groupsAtOnce = 100

/** Of the view `receipts`: those with `from` < seq ≤ `to`. It leaves groups out by their ends. */
export const receiptsWithin = (from: bigint | SQL, to: bigint | SQL): SQL => {
  const [first, last] = [seqText(from), seqText(to)]
  return sql`receipts.group_last_seq > ${first} and receipts.group_last_seq < ${last} + ${groupSeqsMax}::bigint and receipts.group_first_seq <= ${last}
    and receipts.seq > ${first} and receipts.seq <= ${last}`
}

const seqText = (seq: bigint | SQL): SQL => (typeof seq === 'bigint' ? sql`${seq.toString()}::bigint` : seq)

/** The largest seq that any receipt has; 0 where there is none. */
export const newestReceiptSeq = sql`greatest((select max(seq) from receipt_rows), (select max(last_seq) from receipt_groups), 0)`

/**
 * A seq behind `from`, so that some of the receipts in between are there and at most about `count` (null: no receipt is behind `from`). By
 * numbers and not by rows, because a group is read whole.
 */
export async function receiptStep(db: Database, from: bigint, count: number): Promise<bigint | null> {
  const after = seqText(from)
  const [row] = await db.execute<{ next: string | null }>(sql`
    select least(
      (select min(seq) from receipt_rows where seq > ${after}),
      (select min(greatest(first_seq, ${after} + 1)) from (
        select first_seq from receipt_groups where last_seq > ${after} order by last_seq limit ${groupsAtOnce}) g)
    )::text as next`)
  return row?.next == null ? null : BigInt(row.next) + BigInt(count) - 1n
}

/** What `group_last_seq` of the view `receipts` says of the receipt with this hash; null: there is none. */
export const groupOf = (hash: string): SQL<bigint> =>
  sql<bigint>`coalesce((select seq from receipt_rows where receipt_hash = ${hash}), receipt_group_of(${hash}))`

/** Receipts of a run of places. So many and those of a minute more are looked for in their groups, one group after the other. */
const runReceipts = 65_536
/** Of one round; the next one goes on. */
const runsAtOnce = 64

/** Sorts in the hashes of receipts that have come since (`receipt_places_make`). Resolves with how many runs it made. */
export async function makeReceiptPlaces(db: Database, receipts = runReceipts): Promise<number> {
  for (let runs = 0; ; runs++) {
    if (runs === runsAtOnce || !(await makeRun(db, receipts))) return runs
  }
}

const makeRun = (db: Database, receipts: number): Promise<boolean> =>
  db.transaction(async (tx) => {
    // Runs of millions are put together, too.
    await tx.execute(sql`set local statement_timeout = '10min'`)
    const [row] = await tx.execute<{ made: boolean }>(sql`select receipt_places_make(${receipts}::integer) as made`)
    return row?.made === true
  })
