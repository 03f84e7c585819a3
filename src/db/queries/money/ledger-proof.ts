import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'

/** Sums of the whole books, wei. */
export interface Books {
  readonly creditsWei: bigint
  readonly balancesWei: bigint
  readonly debitsWei: bigint
  /** Debits of rejected receipts that were given back. */
  readonly refundsWei: bigint
  readonly payoutsWei: bigint
  readonly feesWei: bigint
  readonly reservedWei: bigint
  readonly openReservationsWei: bigint
  /** Customers whose balance or reserve is not what their own entries add up to. */
  readonly customersOff: number
  /** Entries whose `_after` amounts do not follow from the entry before. */
  readonly entriesOff: number
  readonly entries: number
}

/**
 * One statement, so that all sums are of one moment. It reads the whole ledger, however long that takes: for audits, not
 * for requests.
 */
export async function readBooks(db: Database): Promise<Books> {
  const rows = await db.transaction(async (tx) => {
    await tx.execute(sql`set local statement_timeout = '10min'`)
    return tx.execute(wholeBooks)
  })
  return booksOf(rows as unknown as readonly [Record<string, string>])
}

const wholeBooks = sql`
    with moves as (
      select customer_id, seq, balance_after_wei, reserved_after_wei,
        case when kind in ('admin_credit', 'refund') then amount_wei when kind = 'debit' then -amount_wei else 0 end as balance_by,
        case when kind = 'reserve' then amount_wei when kind in ('release', 'debit') then -amount_wei else 0 end as reserved_by
      from ledger_entries
    ), followed as (
      select balance_after_wei - balance_by
          - coalesce(lag(balance_after_wei) over w, 0) as balance_gap,
        reserved_after_wei - reserved_by - coalesce(lag(reserved_after_wei) over w, 0) as reserved_gap
      from moves window w as (partition by customer_id order by seq)
    ), own as (
      select customer_id, sum(balance_by) as balance, sum(reserved_by) as reserved from moves group by customer_id
    )
    select
      (select coalesce(sum(amount_wei), 0)::text from ledger_entries where kind = 'admin_credit') as credits,
      (select coalesce(sum(balance_wei), 0)::text from customers) as balances,
      (select coalesce(sum(amount_wei), 0)::text from ledger_entries where kind = 'debit') as debits,
      (select coalesce(sum(amount_wei), 0)::text from ledger_entries where kind = 'refund') as refunds,
      (select coalesce(sum(amount_wei), 0)::text from payouts where settlement_status <> 'void') as payouts,
      (select coalesce(sum(amount_wei), 0)::text from protocol_fees where status <> 'refunded') as fees,
      (select coalesce(sum(reserved_wei), 0)::text from customers) as reserved,
      (select coalesce(sum(amount_wei), 0)::text from reservations where status = 'open') as open_reservations,
      (select count(*)::int from customers c left join own o using (customer_id)
        where c.balance_wei <> coalesce(o.balance, 0) or c.reserved_wei <> coalesce(o.reserved, 0)) as customers_off,
      (select count(*)::int from followed where balance_gap <> 0 or reserved_gap <> 0) as entries_off,
      (select count(*)::int from moves) as entries`

function booksOf([row]: readonly [Record<string, string>]): Books {
  const wei = (name: string) => BigInt(row[name] ?? '')
  return {
    creditsWei: wei('credits'),
    balancesWei: wei('balances'),
    debitsWei: wei('debits'),
    refundsWei: wei('refunds'),
    payoutsWei: wei('payouts'),
    feesWei: wei('fees'),
    reservedWei: wei('reserved'),
    openReservationsWei: wei('open_reservations'),
    customersOff: Number(row.customers_off),
    entriesOff: Number(row.entries_off),
    entries: Number(row.entries),
  }
}

/** Cheap: what the metrics show. */
export async function reservedTotal(db: Database): Promise<bigint> {
  const rows = await db.execute(sql`select coalesce(sum(reserved_wei), 0)::text as reserved from customers`)
  return BigInt((rows as unknown as readonly { reserved: string }[])[0]?.reserved ?? '0')
}
