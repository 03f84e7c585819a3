import { sql } from 'drizzle-orm'
import type { Account, CountedKind } from '../../../protocol/money/kinds.ts'
import { balanceAccounts, countedKinds, kindsThat } from '../../../protocol/money/moves.ts'
import type { Database } from '../../client.ts'
import { kindText, kindTexts } from '../../kind-texts.ts'

/** Sums of the whole books, wei. */
export interface Books {
  readonly sums: Readonly<Record<CountedKind, bigint>>
  readonly balancesWei: bigint
  readonly payoutsWei: bigint
  readonly feesWei: bigint
  readonly reservedWei: bigint
  readonly openReservationsWei: bigint
  /** Beside what is reserved, and what the leases have left of it. */
  readonly leasedWei: bigint
  readonly leasesWei: bigint
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

/** By how much an entry changes what these accounts have. */
const change = (accounts: readonly Account[]) =>
  sql.raw(`case when kind in ${kindTexts(kindsThat(1, accounts))} then amount_wei
          when kind in ${kindTexts(kindsThat(-1, accounts))} then -amount_wei else 0 end`)

const sums = sql.raw(
  countedKinds
    .map(
      (kind) =>
        `(select coalesce(sum(amount_wei), 0)::text from ledger_entries where kind = ${kindText(kind)}) as ${kind}`,
    )
    .join(',\n      '),
)

const wholeBooks = sql`
    with moves as (
      select customer_id, seq, balance_after_wei, reserved_after_wei, ${change(balanceAccounts)} as balance_by,
        ${change(['reserved'])} as reserved_by
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
      ${sums},
      (select coalesce(sum(balance_wei), 0)::text from customers) as balances,
      (select coalesce(sum(amount_wei), 0)::text from payouts where settlement_status <> 'void') as payouts,
      (select coalesce(sum(amount_wei), 0)::text from protocol_fees where status <> 'refunded') as fees,
      (select coalesce(sum(reserved_wei), 0)::text from customers) as reserved,
      (select coalesce(sum(amount_wei), 0)::text from reservations where status = 'open') as open_reservations,
      (select coalesce(sum(leased_wei), 0)::text from customers) as leased,
      (select coalesce(sum(left_wei), 0)::text from money_leases) as leases,
      (select count(*)::int from customers c left join own o using (customer_id)
        where c.balance_wei <> coalesce(o.balance, 0) or c.reserved_wei <> coalesce(o.reserved, 0)) as customers_off,
      (select count(*)::int from followed where balance_gap <> 0 or reserved_gap <> 0) as entries_off,
      (select count(*)::int from moves) as entries`

function booksOf([row]: readonly [Record<string, string>]): Books {
  const wei = (name: string) => BigInt(row[name] ?? '')
  return {
    sums: Object.fromEntries(countedKinds.map((kind) => [kind, wei(kind)])) as Books['sums'],
    balancesWei: wei('balances'),
    payoutsWei: wei('payouts'),
    feesWei: wei('fees'),
    reservedWei: wei('reserved'),
    openReservationsWei: wei('open_reservations'),
    leasedWei: wei('leased'),
    leasesWei: wei('leases'),
    customersOff: Number(row.customers_off),
    entriesOff: Number(row.entries_off),
    entries: Number(row.entries),
  }
}

/** Cheap: what the metrics show. What is leased counts whole. */
export async function reservedTotal(db: Database): Promise<bigint> {
  const rows = await db.execute(
    sql`select coalesce(sum(reserved_wei + leased_wei), 0)::text as reserved from customers`,
  )
  return BigInt((rows as unknown as readonly { reserved: string }[])[0]?.reserved ?? '0')
}
