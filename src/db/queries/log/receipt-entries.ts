import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { receiptStep } from '../money/receipt-ranges.ts'

/** Receipts of one run. To find the place of one, half of them are counted on average. */
const runMax = 256

/** What receipts became in the log. */
export interface ReceiptEntries {
  readonly count: number
  /** All up to this seq are in the log now, or left out. */
  readonly toSeq: bigint
  /** Their leaves in the tree (RFC 9162 §2.1.1), one behind the other. */
  readonly leaves: Uint8Array
  /**
   * What gave these entries, as the same statement saw it: JSON, a list for each receipt that stands alone and for each group, of its
   * first and last seq as texts, whether it is a group, its hash (of a group the hex of all hashes, one behind the other), its customer (one
   * line for each, or one for all), and its mark or null.
   */
  readonly written: string
}

export interface ReceiptRange {
  readonly from: bigint
  readonly to: bigint
  readonly size: number
  /** What an entry says before the receipt's hash. */
  readonly head: string
  /** These are left out. */
  readonly skip: readonly bigint[]
}

/** Where the next `limit` receipts or so end. */
export async function receiptsEnd(tx: Database, from: bigint, until: bigint, limit: number): Promise<bigint> {
  const step = (await receiptStep(tx, from, limit)) ?? until
  return step < until ? step : until
}

/**
 * Receipts with `from` < seq ≤ `to` become the entries from `size` on, in the order of their seq: a row for each run, and their
 * leaves, which are made where the receipts are (docs/decisions/0018). A run ends before what is left out.
 */
export async function insertReceiptEntries(tx: Database, range: ReceiptRange): Promise<ReceiptEntries> {
  const { size, head, to: toSeq } = range
  const [from, to] = [sql`${range.from.toString()}::bigint`, sql`${toSeq.toString()}::bigint`]
  const skip = sql`${`{${range.skip.join(',')}}`}::text::bigint[]`
  const [row] = await tx.execute<{ entries: number; leaves: Buffer | null; written: string }>(sql`
    with skipped as materialized (
      select k from unnest(${skip}) k
    ), taken as (
      select r.seq, r.receipt_hash as hash, row_number() over (order by r.seq) - 1 as place,
          (select count(*) from skipped where k < r.seq) as gap
        from receipts_within(${from}, ${to}) r where r.seq not in (select k from skipped)
    ), placed as (
      select seq, hash, place, gap, (row_number() over (partition by gap order by seq) - 1) / ${runMax} as run from taken
    ), runs as (
      insert into log_receipts (first_index, entries, from_seq, to_seq)
        select ${size}::bigint + min(place), count(*),
          greatest(lag(max(seq)) over (order by min(seq)), (select max(k) from skipped where k < min(seq)), ${from}), max(seq)
        from placed group by gap, run
    ), written as (
      select r.seq as first, r.seq as last, false as grouped, r.receipt_hash as hashes, r.customer_id as customers, r.mac
        from receipt_rows r where r.seq > ${from} and r.seq <= ${to} and r.seq not in (select k from skipped)
      union all
      select g.first_seq, g.last_seq, true, encode(g.hashes, 'hex'), coalesce(g.shared[1], array_to_string(g.customer_id, E'\n')), g.mac
        from receipt_groups g where g.last_seq > ${from} and g.last_seq < ${to} + 100000 and g.first_seq <= ${to}
          and not exists (select 1 from skipped where k = any (g.seq))
    )
    select count(*)::int as entries,
      string_agg(sha256('\\x00'::bytea || convert_to(${head}::text || hash, 'UTF8')), ''::bytea order by seq) as leaves,
      (select coalesce(json_agg(json_build_array(first::text, last::text, grouped, hashes, customers, mac) order by first), '[]')::text
        from written) as written
    from taken`)
  return { count: row?.entries ?? 0, toSeq, leaves: row?.leaves ?? new Uint8Array(), written: row?.written ?? '[]' }
}

/** Takes back what `insertReceiptEntries` has written in this transaction. */
export async function undoReceiptEntries(tx: Database, size: number): Promise<void> {
  await tx.execute(sql`delete from log_receipts where first_index >= ${size}`)
}

/** The numbers of all receipts in these groups, known by their last ones. */
export async function seqsOfGroups(tx: Database, lastSeqs: readonly bigint[]): Promise<readonly bigint[]> {
  if (lastSeqs.length === 0) return []
  const rows = await tx.execute<{ seq: string }>(sql`select unnest(g.seq)::text as seq from receipt_groups g
    where g.last_seq = any (${`{${lastSeqs.join(',')}}`}::text::bigint[])`)
  return rows.map(({ seq }) => BigInt(seq))
}

export async function hasReceipts(db: Database): Promise<boolean> {
  const [row] = await db.execute<{ found: boolean }>(sql`
    select exists (select 1 from receipt_rows) or exists (select 1 from receipt_groups) as found`)
  return row?.found === true
}
