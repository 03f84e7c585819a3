import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'

/** A receipt, or a whole group of them. */
export interface WaitingReceipts {
  /** Of the receipt, or of the last one of its group. */
  readonly lastSeq: bigint
  readonly group: boolean
}

const listOf = (receipts: readonly WaitingReceipts[], groups: boolean) => {
  const seqs = receipts.filter(({ group }) => group === groups).map(({ lastSeq }) => lastSeq)
  return sql`${`{${seqs.join(',')}}`}::text::bigint[]`
}

/** Those that wait already keep the time since when. */
export async function insertWaiting(tx: Database, receipts: readonly WaitingReceipts[]): Promise<void> {
  if (receipts.length === 0) return
  await tx.execute(sql`insert into log_waiting (last_seq, grouped)
    select unnest(${listOf(receipts, false)}), false union all select unnest(${listOf(receipts, true)}), true
    on conflict do nothing`)
}

/** They wait no longer. */
export async function deleteWaiting(tx: Database, receipts: readonly WaitingReceipts[]): Promise<void> {
  if (receipts.length === 0) return
  await tx.execute(sql`delete from log_waiting where last_seq = any (case when grouped then ${listOf(receipts, true)}
    else ${listOf(receipts, false)} end)`)
}

export interface WaitingPage {
  readonly waiting: readonly (WaitingReceipts & { readonly sinceMs: number })[]
  /** As `ReceiptEntries` of `receipt-entries.ts` has it, of those that are still there. They do not change in this transaction. */
  readonly written: string
}

/** Those with `after` < last seq ≤ `to`, in the order of their seq. What lies behind `to` the log has not gone past yet. */
export async function readWaiting(
  tx: Database,
  { after, to, limit }: { readonly after: bigint; readonly to: bigint; readonly limit: number },
): Promise<WaitingPage> {
  const page = await tx.execute<{ seq: string; group: boolean; since: number }>(sql`
    select last_seq::text as seq, grouped as "group", extract(epoch from created_at)::float8 * 1000 as since from log_waiting
    where last_seq > ${after.toString()}::bigint and last_seq <= ${to.toString()}::bigint order by last_seq limit ${limit}`)
  const waiting = page.map(({ seq, group, since }) => ({ lastSeq: BigInt(seq), group, sinceMs: since }))
  return { waiting, written: waiting.length === 0 ? '[]' : await readWritten(tx, waiting) }
}

async function readWritten(tx: Database, waiting: readonly WaitingReceipts[]): Promise<string> {
  const [rows, groups] = [listOf(waiting, false), listOf(waiting, true)]
  await tx.execute(sql`select 1 from receipt_rows where seq = any (${rows}) for share`)
  await tx.execute(sql`select 1 from receipt_groups where last_seq = any (${groups}) for share`)
  const [row] = await tx.execute<{ written: string }>(sql`
    select coalesce(json_agg(json_build_array(first::text, last::text, grouped, hashes, customers, mac) order by last), '[]')::text as written
    from (
      select seq as first, seq as last, false as grouped, receipt_hash as hashes, customer_id as customers, mac
        from receipt_rows where seq = any (${rows})
      union all
      select first_seq, last_seq, true, encode(hashes, 'hex'), coalesce(shared[1], array_to_string(customer_id, E'\n')), mac
        from receipt_groups where last_seq = any (${groups})
    ) there`)
  return row?.written ?? '[]'
}

export interface LateRange {
  /** Of the log, which has gone past all up to `to`. */
  readonly size: number
  readonly to: bigint
  /** What an entry says before the receipt's hash. */
  readonly head: string
}

/** These become the entries from `size` on, in the order of their seq, each as a run of its own; what the log has already is left out. */
export async function insertLateEntries(
  tx: Database,
  receipts: readonly WaitingReceipts[],
  { size, to, head }: LateRange,
): Promise<{ readonly count: number; readonly leaves: Uint8Array }> {
  const [row] = await tx.execute<{ entries: number; leaves: Buffer | null }>(sql`
    with these as materialized (
      select seq, receipt_hash as hash from receipt_rows where seq = any (${listOf(receipts, false)})
      union all
      select u.seq, '0x' || encode(substring(g.hashes from 32 * u.place::integer - 31 for 32), 'hex')
        from receipt_groups g, unnest(g.seq) with ordinality as u (seq, place) where g.last_seq = any (${listOf(receipts, true)})
    ), placed as (
      select seq, hash, row_number() over (order by seq) - 1 as place from (select distinct on (seq) seq, hash from these) these
      where seq <= ${to.toString()}::bigint
        and not exists (select 1 from log_entries e where e.hash = these.hash) and not exists (select 1 from log_receipts l
        where l.to_seq = (select min(to_seq) from log_receipts where to_seq >= these.seq) and l.from_seq < these.seq)
    ), runs as (
      insert into log_receipts (first_index, entries, from_seq, to_seq) select ${size}::bigint + place, 1, seq - 1, seq from placed
    )
    select count(*)::int as entries,
      string_agg(sha256('\\x00'::bytea || convert_to(${head}::text || hash, 'UTF8')), ''::bytea order by seq) as leaves
    from placed`)
  return { count: row?.entries ?? 0, leaves: row?.leaves ?? new Uint8Array() }
}
