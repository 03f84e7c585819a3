import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import { receiptStep, receiptsWithin } from '../money/receipt-ranges.ts'
import { wasPurged } from './row-states.ts'

/** Between the catalogue and a quote: gateways learn a change within seconds, and their clocks differ. */
const quotedWithin = `interval '1 minute'`

/** Of a receipt, the wei for a token of a prompt and of an answer. */
const [promptPrice, completionPrice] = [1, 2].map(
  (place) => `split_part(split_part(r.price, '.', 1), ':', ${place})::numeric`,
)
const wellFormed = `r.price ~ '^[0-9]{1,78}:[0-9]{1,78}[.]'`

/** What belongs to one billed receipt, put together by its hash as in `proof.ts`, and `r` for the texts above. */
const charged = `(
  select receipt_hash, max(model_id) as model_id, max(price) as price, max(prompt_tokens) as prompt_tokens,
    max(completion_tokens) as completion_tokens, max(issued_at) as issued_at, min(debit) as debit_min, max(debit) as debit_max,
    max(quote) as quote, max(quoted_at) as quoted_at
  from (
    select receipt_hash, model_id, price, prompt_tokens, completion_tokens, issued_at, true as billed, null::numeric as debit,
        null::numeric as quote, null::timestamptz as quoted_at from receipts where billed
      union all select receipt_hash, null, null, null, null, null, null, amount_wei, null, null from ledger_entries
        where kind = ${kindText('debit')}
      union all select receipt_hash, null, null, null, null, null, null, null, amount_wei, created_at from charge_quotes) m
  group by receipt_hash having bool_or(billed)) r`
const fromPrice = `least(r.prompt_tokens * ${promptPrice} + r.completion_tokens * ${completionPrice}, r.quote)`

/**
 * Statements about what was billed with a price (§36). In force was what an event of the catalogue's entry said; one without prices is
 * of a version before and explains all, and after a purge nothing is said of what was quoted before the first
 * event that is left.
 */
export const priceRules = {
  'every debit is what its price makes of its tokens': `
    select r.receipt_hash as subject from ${charged}
    where r.debit_max is not null and case when ${wellFormed} then r.debit_max <> ${fromPrice} or r.debit_min <> ${fromPrice}
      else r.issued_at is not null end`,
  'every price is the one of the catalogue when the work was quoted': `
    with events as (
      select target_id as model, created_at, metadata->'prices' as prices,
        lead(created_at) over (partition by target_id order by created_at, event_id) as until
      from admin_approval_events where target_type = 'model' and target_id is not null),
    since as (select model, min(created_at) as at from events group by model)
    select r.receipt_hash as subject from ${charged}
      left join since s on s.model = r.model_id
    where r.quoted_at is not null and ${wellFormed}
      and (not exists (select 1 from audit_purge_runs p where ${wasPurged}) or r.quoted_at > s.at + ${quotedWithin})
      and not exists (select 1 from events e where e.model = r.model_id
        and e.created_at <= r.quoted_at + ${quotedWithin} and (e.until is null or e.until > r.quoted_at - ${quotedWithin})
        and (e.prices is null or (e.prices->>0)::numeric = ${promptPrice} and (e.prices->>1)::numeric = ${completionPrice}))`,
} as const

export interface PricedReceipt {
  readonly hash: string
  readonly price: string
  readonly mac: string | null
}

/** In the order of their seq, about this number at once. */
export async function* pricedReceipts(db: Database, atOnce: number): AsyncGenerator<readonly PricedReceipt[]> {
  for (let from = 0n; ; ) {
    const to = await receiptStep(db, from, atOnce)
    if (to === null) return
    yield await db.execute<PricedReceipt & Record<string, unknown>>(sql`
      select receipt_hash as hash, price, mac from receipts
      where billed and price is not null and ${receiptsWithin(from, to)} order by seq`)
    from = to
  }
}
