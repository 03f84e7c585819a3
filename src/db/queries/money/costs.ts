import { type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import { tagsBetween } from '../requests/request-groups.ts'

/** What was debited, put together; `name` where an id has one. */
export interface Cost {
  readonly key: string | null
  readonly name: string | null
  readonly count: number
  readonly amountWei: string
  /** Of this, what was given back since. */
  readonly refundedWei: string
  readonly promptTokens: string
  readonly completionTokens: string
}

export interface CostRange {
  readonly from: Date
  readonly to: Date
}

const none = sql<string | null>`null`

export type LedgerGrouping = 'customer' | 'model' | 'month'

/** By what the ledger and its receipts say, which are kept for ever. The dearest first, and months in their order. */
export const ledgerCosts = (
  db: Database,
  by: LedgerGrouping,
  range: CostRange,
  limit: number,
): Promise<readonly Cost[]> => (by === 'model' ? costsOfModels(db, range, limit) : costsInSums(db, by, range, limit))

/**
 * Only its receipt says which model a debit was for. Those of a group of charges are looked for among the billed ones of its moment, some hundreds: to
 * bring all debits of a range together with all receipts takes a sort of both on the disk. A receipt that became a billed one later is a row.
 */
async function costsOfModels(db: Database, range: CostRange, limit: number): Promise<readonly Cost[]> {
  const rows = await db.execute<SummedCost>(sql`
    with costs as (
      select r.model_id as key, 1 as count, l.amount_wei as amount, coalesce(b.amount_wei, 0) as refunded, r.prompt_tokens as prompt,
        r.completion_tokens as completion
      from ledger_rows l left join receipt_rows r on r.receipt_hash = l.receipt_hash
        left join ledger_rows b on b.kind = ${sql.raw(kindText('refund'))} and b.receipt_hash = l.receipt_hash
      where l.kind = ${sql.raw(kindText('debit'))} and ${within(sql`l.created_at`, range)}
      union all
      select of_moment.* from (select distinct g.created_at as at from charge_groups g where ${within(sql`g.created_at`, range)}) m, lateral (
        select coalesce(r.model_id, late.model_id), count(*), sum(d.wei), 0, sum(coalesce(r.prompt, late.prompt_tokens)),
          sum(coalesce(r.completion, late.completion_tokens))
        from (
          select ${hashAt} as hash, u.wei
          from charge_groups g, ${hashesOnce}, unnest(g.charged_wei) with ordinality as u (wei, place) where g.created_at = m.at offset 0
        ) d left join (
          select ${hashAt} as hash, coalesce(u.model_id, g.shared[11]) as model_id, coalesce(u.prompt, g.shared[12]::integer) as prompt,
            coalesce(u.completion, g.shared[13]::integer) as completion
          from receipt_groups g, ${hashesOnce}, unnest(g.seq, g.model_id, g.prompt_tokens, g.completion_tokens)
            with ordinality as u (seq, model_id, prompt, completion, place) where g.billed and g.created_at = m.at
          union all
          select decode(substring(w.receipt_hash from 3), 'hex'), w.model_id, w.prompt_tokens, w.completion_tokens
          from receipt_rows w where w.billed and w.created_at = m.at offset 0
        ) r on r.hash = d.hash
          left join receipt_rows late on r.hash is null and late.receipt_hash = '0x' || encode(d.hash, 'hex')
        group by 1
      ) of_moment
    )
    select key, null as name, sum(count)::text as count, sum(amount)::text as amount, sum(refunded)::text as refunded,
      coalesce(sum(prompt), 0)::text as prompt, coalesce(sum(completion), 0)::text as completion
    from costs group by key order by sum(amount) desc, key limit ${limit}`)
  return rows.map(costOf)
}

/** Fetched once for a group: a part of what is stored elsewhere is fetched by itself, each time. */
const hashesOnce = sql`lateral (select g.hashes || ''::bytea as hashes offset 0) h`
const hashAt = sql`substring(h.hashes from 32 * u.place::integer - 31 for 32)`

const within = (at: SQL, { from, to }: CostRange) =>
  sql`${at} >= ${from.toISOString()}::timestamptz and ${at} < ${to.toISOString()}::timestamptz`

/** What is a customer's and of one moment in each row of the ledger, in each group of charges and in each receipt. */
const keysOfSums = {
  customer: (customer: SQL, _at: SQL) => customer,
  month: (_customer: SQL, at: SQL) => sql`to_char(${at} at time zone 'UTC', 'YYYY-MM')`,
} as const

interface SummedCost extends Record<string, unknown> {
  readonly key: string | null
  readonly name: string | null
  readonly count: string
  readonly amount: string
  readonly refunded: string
  readonly prompt: string
  readonly completion: string
}

/**
 * By what stands in every group of charges and every receipt: the sums of the groups are read as they are, and no debit is brought together with its
 * receipt. A billed receipt is of the commit of its debit, and so of the same moment.
 */
async function costsInSums(
  db: Database,
  by: keyof typeof keysOfSums,
  range: CostRange,
  limit: number,
): Promise<readonly Cost[]> {
  const key = keysOfSums[by]
  const [ledgerAt, groupAt, receiptAt] = [sql`l.created_at`, sql`g.created_at`, sql`r.created_at`]
  const rows = await db.execute<SummedCost>(sql`
    with debits as (
      select ${key(sql`l.customer_id`, ledgerAt)} as key, 1 as debits, l.amount_wei as wei, coalesce(b.amount_wei, 0) as refunded
      from ledger_rows l left join ledger_rows b on b.kind = ${sql.raw(kindText('refund'))} and b.receipt_hash = l.receipt_hash
      where l.kind = ${sql.raw(kindText('debit'))} and ${within(ledgerAt, range)}
      union all
      select ${key(sql`g.customer_id`, groupAt)}, g.rows, g.charged_total, 0 from charge_groups g where ${within(groupAt, range)}
    ), tokens as (
      select ${key(sql`r.customer_id`, receiptAt)} as key, r.prompt_tokens as prompt, r.completion_tokens as completion
      from receipt_rows r where r.billed and ${within(receiptAt, range)}
      union all
      select ${key(sql`coalesce(u.customer_id, g.shared[1])`, groupAt)}, coalesce(u.prompt, g.shared[12]::integer),
        coalesce(u.completion, g.shared[13]::integer)
      from receipt_groups g, unnest(g.seq, g.customer_id, g.prompt_tokens, g.completion_tokens) as u (seq, customer_id, prompt, completion)
      where g.billed and ${within(groupAt, range)}
    ), spent as (
      select key, sum(debits) as count, sum(wei) as amount, sum(refunded) as refunded from debits group by key
    ), used as (
      select key, sum(prompt) as prompt, sum(completion) as completion from tokens group by key
    )
    select key, ${by === 'customer' ? sql`c.display_name` : none} as name, s.count::text, s.amount::text, s.refunded::text,
      coalesce(t.prompt, 0)::text as prompt, coalesce(t.completion, 0)::text as completion
    from spent s left join used t using (key) ${by === 'customer' ? sql`left join customers c on c.customer_id = key` : sql``}
    order by ${by === 'month' ? sql`key` : sql`s.amount desc, key`} limit ${limit}`)
  return rows.map(costOf)
}

const costOf = ({ key, name, count, amount, refunded, prompt, completion }: SummedCost): Cost => ({
  key,
  name,
  count: Number(count),
  amountWei: amount,
  refundedWei: refunded,
  promptTokens: prompt,
  completionTokens: completion,
})

/** What a request's record says that the ledger does not: the key, and each of its tags. */
const ofRecords = {
  key: { column: sql`g.key_id`, shared: sql`g.shared[4]`, each: sql`select r.said` },
  tag: {
    column: sql`g.tags`,
    shared: sql`g.shared[23]`,
    each: sql`select unnest(string_to_array(r.said, ${tagsBetween}))`,
  },
} as const satisfies Record<string, { readonly column: SQL; readonly shared: SQL; readonly each: SQL }>

export type RecordGrouping = keyof typeof ofRecords

/** By the records of requests, as long as they are kept. */
export async function recordCosts(
  db: Database,
  by: RecordGrouping,
  { from, to }: CostRange,
  limit: number,
): Promise<readonly Cost[]> {
  const { column, shared, each } = ofRecords[by]
  const [first, end] = [from.toISOString(), to.toISOString()]
  const rows = await db.execute<
    { key: string | null; count: string } & Record<'amount' | 'refunded' | 'prompt' | 'completion', string>
  >(sql`
    select k.key, count(*) as count, sum(r.cost)::text as amount, coalesce(sum(b.amount_wei), 0)::text as refunded, coalesce(sum(r.prompt), 0)::text as prompt,
      coalesce(sum(r.completion), 0)::text as completion
    from request_groups g,
      unnest(g.at_ms, ${column}, g.cost_wei, g.prompt_tokens, g.completion_tokens, g.receipt_hash)
        as e (at_ms, said, cost, prompt, completion, receipt),
      lateral (select g.minute + e.at_ms * interval '1 millisecond' as at, coalesce(e.said, ${shared}) as said,
        coalesce(e.cost, g.shared[20]::numeric) as cost, coalesce(e.prompt, g.shared[15]::integer) as prompt,
        coalesce(e.completion, g.shared[16]::integer) as completion, coalesce(e.receipt, g.shared[21]) as receipt) r
      cross join lateral (${each}) k (key)
      left join ledger_rows b on b.kind = ${sql.raw(kindText('refund'))} and b.receipt_hash = r.receipt
    where g.minute >= date_trunc('minute', ${first}::timestamptz) and g.minute < ${end}::timestamptz
      and (g.cost_wei is not null or g.shared[20] is not null)
      and r.at >= ${first}::timestamptz and r.at < ${end}::timestamptz and r.cost > 0
    group by k.key order by sum(r.cost) desc, k.key limit ${limit}`)
  return rows.map(({ key, count: found, amount, refunded, prompt, completion }) => ({
    key,
    name: null,
    count: Number(found),
    amountWei: amount,
    refundedWei: refunded,
    promptTokens: prompt,
    completionTokens: completion,
  }))
}
