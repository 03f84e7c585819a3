import { sql } from 'drizzle-orm'
import { arrayOf, arrayText, columnsOf, listText } from '../../arrays.ts'
import type { Executor } from '../../prepared.ts'
import { chargedGroup, groupedReceipt } from './charged-groups.ts'
import { inOrder, type SettleRow } from './ledger.ts'
import type { MarkGroup } from './receipt-groups.ts'
import { type MarkedReceipt, receiptColumns } from './receipts.ts'

/** The channel on which holders of a customer's leases are asked to end them; the payload is the customer's id. */
export const recallChannel = 'penstock_money'

/** A reservation in memory, as a row that it may become. */
export interface LeasedReserve {
  readonly id: string
  readonly amountWei: bigint
  /** The id of its entry. */
  readonly entry: string
}

/** A charge of a reservation under a lease. It is never held. */
export interface LeasedRow extends SettleRow {
  readonly leaseId: string
  readonly customer: string
  readonly reservedWei: bigint
  /** When it was reserved, Unix ms. */
  readonly reservedAtMs: number
  /** The id of the entry of its reserve. */
  readonly reserve: string
}

/** A charge under a lease with its receipt. */
export interface LeasedCharge {
  readonly row: LeasedRow
  readonly receipt: MarkedReceipt
  /** The ids of the groups in which it was sent: where its answer was lost, it is in one of them or not charged. One more for each time. */
  readonly sentIn: Set<string>
}

export interface LeasedCall {
  /** Larger than that of every call before, of this process. */
  readonly number: bigint
  readonly ttlMs: number
  /** The mark of a group of receipts; null: each is a row, because a gateway of the version before reads them. */
  readonly mark: MarkGroup | null
}

/** `again`: not charged, because others of the call stood in its way. */
export type LeasedOutcome = 'settled' | 'unknown' | 'again'

const texts = (values: readonly (string | null)[]) => arrayOf('text', values)
const lists = (values: readonly (string | null)[]) => sql`list_of(${listText(values)}::text)`
const amounts = (values: readonly bigint[]) => arrayOf('numeric', values)
const integers = (values: readonly number[]) => sql`${arrayText(values)}::text`
/** Of ASCII. */
const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/** Resolves with how much was leased, at most `wei`, when that is on the disk: a lease that a crash made smaller would be overspent. */
export async function takeLease(
  db: Executor,
  lease: { readonly id: string; readonly customerId: string; readonly wei: bigint; readonly ttlMs: number },
): Promise<bigint> {
  const answer = await db.execute(sql`select money_lease_take(${lease.id}, ${lease.customerId},
    ${lease.wei.toString()}::text::numeric, ${lease.ttlMs}::bigint)::text as wei`)
  return BigInt((answer as unknown as readonly { wei: string }[])[0]?.wei ?? '0')
}

/** The same for a lease that is there; 0n: it has ended, too. */
export async function addToLease(
  db: Executor,
  lease: { readonly id: string; readonly customerId: string; readonly wei: bigint; readonly ttlMs: number },
): Promise<bigint> {
  const answer = await db.execute(sql`select money_lease_add(${lease.id}, ${lease.customerId},
    ${lease.wei.toString()}::text::numeric, ${lease.ttlMs}::bigint)::text as wei`)
  return BigInt((answer as unknown as readonly { wei: string }[])[0]?.wei ?? '0')
}

/**
 * Makes rows of reservations in memory, which are on the disk when it resolves, and with `ends` gives the lease back. False: there is no
 * such lease (any more). Repeating it does no harm.
 */
export async function reserveLeased(
  db: Executor,
  lease: { readonly id: string; readonly customerId: string; readonly ends: boolean },
  rows: readonly LeasedReserve[],
  ttlMs: number,
): Promise<boolean> {
  const answer = await db.execute(sql`select money_lease_reserve(${lease.id}, ${lease.customerId}, ${lease.ends},
    ${texts(rows.map(({ id }) => id))}, ${amounts(rows.map(({ amountWei }) => amountWei))},
    ${texts(rows.map(({ entry }) => entry))}, ${ttlMs}::bigint) as there`)
  return (answer as unknown as readonly { there: boolean }[])[0]?.there === true
}

export interface RenewedLease {
  readonly id: string
  /** False: it has ended. */
  readonly there: boolean
  readonly renewed: boolean
  /** Somebody asks what is reserved. */
  readonly recalled: boolean
}

/** Renews leases, but those that a charge holds: it renews them itself. */
export async function renewLeases(
  db: Executor,
  ids: readonly string[],
  ttlMs: number,
): Promise<readonly RenewedLease[]> {
  const rows = await db.execute(sql`
    with held as (
      select l.lease_id from money_leases l where l.lease_id = any (${texts(ids)}) for update skip locked
    ), renewed as (
      update money_leases l set ends_at = clock_timestamp() + ${ttlMs}::bigint * interval '1 ms'
        from held h where l.lease_id = h.lease_id returning l.lease_id
    )
    select q.id, l.lease_id is not null as there, r.lease_id is not null as renewed,
      coalesce(c.unleased_until > clock_timestamp(), false) as recalled
    from unnest(${texts(ids)}) as q (id)
    left join money_leases l on l.lease_id = q.id
    left join renewed r on r.lease_id = q.id
    left join customers c on c.customer_id = l.customer_id`)
  return rows as unknown as readonly RenewedLease[]
}

/** Asks all holders to end their leases of this customer, and lets none begin for `pauseMs`. Resolves with how many there are. */
export async function recallLeases(db: Executor, customerId: string, pauseMs: number): Promise<number> {
  const answer = await db.execute(sql`select money_leases_recall(${customerId}, ${pauseMs}::bigint) as count`)
  return (answer as unknown as readonly { count: number }[])[0]?.count ?? 0
}

/** Ends leases that nobody renewed and resolves with their number. */
export async function endStaleLeases(db: Executor): Promise<number> {
  const answer = await db.execute(sql`select money_leases_end(null) as count`)
  return (answer as unknown as readonly { count: number }[])[0]?.count ?? 0
}

/** The charges of one lease in a call. */
interface LeaseSums {
  readonly leaseId: string
  readonly customer: string
  count: number
  chargedWei: bigint
  shareWei: bigint
  feeWei: bigint
}

const orderOf = ({ customer, leaseId }: LeasedRow) => `${customer} ${leaseId}`

/** Of each lease, in the order of the rows, which stand by customer and lease. */
function sumsOf(rows: readonly LeasedRow[]): readonly LeaseSums[] {
  const sums: LeaseSums[] = []
  for (const { leaseId, customer, chargedWei, shareWei, feeWei } of rows) {
    const last = sums.at(-1)
    if (last?.leaseId !== leaseId) sums.push({ leaseId, customer, count: 1, chargedWei, shareWei, feeWei })
    else {
      last.count++
      last.chargedWei += chargedWei
      last.shareWei += shareWei
      last.feeWei += feeWei
    }
  }
  return sums
}

/** Of each lease the id of the group that is made of its charges. */
function groupIds(rows: readonly LeasedRow[]): ReadonlyMap<string, string> {
  const ids = new Map<string, string>()
  for (const { leaseId, debit } of rows) if (!ids.has(leaseId)) ids.set(leaseId, debit)
  return ids
}

/** What becomes of the receipts, as arguments. */
function receiptArguments(receipts: readonly MarkedReceipt[], mark: MarkGroup | null) {
  const grouped = mark === null ? [] : receipts.flatMap((receipt) => groupedReceipt(receipt) ?? [])
  const inGroup = new Set(grouped.map(({ receipt }) => receipt))
  const alone = grouped.length === receipts.length ? [] : receipts.filter((receipt) => !inGroup.has(receipt))
  const rows = alone.length === 0 ? null : JSON.stringify(receiptColumns(alone))
  if (mark === null || grouped.length === 0)
    return sql`${rows}::text::json, ''::bytea, null::text[], null::text[], null::text`
  const { hashes, shared, columns, mac } = chargedGroup(grouped, mark)
  const others = alone.length === 0 ? null : `\\x${hashes}`
  return sql`${rows}::text::json, ${others}::text::bytea, ${shared}::text::text[], ${columnsOf(columns)}, ${mac}::text`
}

/**
 * One statement and one commit for all charges with their receipts: all of them are charged, or none. Ids must differ. Outcomes are in
 * the order of the charges.
 */
export async function settleLeased(
  db: Executor,
  charges: readonly LeasedCharge[],
  { number, ttlMs, mark }: LeasedCall,
): Promise<readonly LeasedOutcome[]> {
  const keys = charges.map(({ row }) => orderOf(row))
  const places = charges.map((_, at) => at).sort((a, b) => compare(keys[a] ?? '', keys[b] ?? ''))
  const ordered = places.flatMap((at) => charges[at] ?? [])
  const sorted = ordered.map(({ row }) => row)
  const sums = sumsOf(sorted)
  const sent = new Set(ordered.flatMap(({ sentIn }) => [...sentIn]))
  const ids = groupIds(sorted)
  for (const { row, sentIn } of ordered) sentIn.add(ids.get(row.leaseId) ?? row.debit)
  const nodes = sorted.map(({ node }) => node)
  const answer =
    await db.execute(sql`select place, outcome from leased_charges_write(${number.toString()}::text::bigint,
    ${lists([...sent])}, ${lists(sums.map(({ leaseId }) => leaseId))}, ${lists(sums.map(({ customer }) => customer))},
    ${integers(sums.map(({ count }) => count))}::int[], ${amounts(sums.map(({ chargedWei }) => chargedWei))},
    ${amounts(sums.map(({ shareWei }) => shareWei))}, ${amounts(sums.map(({ feeWei }) => feeWei))}, ${ttlMs}::bigint,
    ${lists(sorted.map(({ id }) => id))}, ${integers(sorted.map(({ reservedAtMs }) => reservedAtMs))}::bigint[],
    ${amounts(sorted.map(({ chargedWei }) => chargedWei))}, ${amounts(sorted.map(({ shareWei }) => shareWei))},
    ${amounts(sorted.map(({ feeWei }) => feeWei))},
    ${amounts(sorted.map(({ reservedWei, chargedWei }) => reservedWei - chargedWei))},
    ${`\\x${ordered.map(({ receipt }) => receipt.hash.slice(2)).join('')}`}::text::bytea, ${lists(nodes.every((node) => node === nodes[0]) ? nodes.slice(0, 1) : nodes)},
    ${lists(sorted.map(({ kind }) => kind))}, ${lists(sorted.map(({ reserve }) => reserve))},
    ${lists(sorted.map(({ debit }) => debit))},
    ${lists(sorted.map(({ release, reservedWei, chargedWei }) => (reservedWei > chargedWei ? release : null)))},
    ${lists(sorted.map(({ payout, shareWei }) => (shareWei > 0n ? payout : null)))},
    ${lists(sorted.map(({ fee, feeWei }) => (feeWei > 0n ? fee : null)))},
    ${receiptArguments(
      ordered.map(({ receipt }) => receipt),
      mark,
    )})`)
  const outcomes = new Array<LeasedOutcome>(charges.length)
  for (const [place, outcome] of inOrder<LeasedOutcome>(charges.length, 'settled', answer).entries()) {
    const at = places[place]
    if (at !== undefined) outcomes[at] = outcome
  }
  return outcomes
}
