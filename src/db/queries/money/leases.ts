import { sql } from 'drizzle-orm'
import { arrayOf } from '../../arrays.ts'
import type { Executor } from '../../prepared.ts'

/** The channel on which holders of a customer's leases are asked to end them; the payload is the customer's id. */
export const recallChannel = 'penstock_money'

/** A reservation in memory, as a row that it may become. */
export interface LeasedReserve {
  readonly id: string
  readonly amountWei: bigint
  /** The id of its entry. */
  readonly entry: string
}

const texts = (values: readonly (string | null)[]) => arrayOf('text', values)
const amounts = (values: readonly bigint[]) => arrayOf('numeric', values)

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

/** Ends unrenewed leases and resolves with their number. */
export async function endStaleLeases(db: Executor): Promise<number> {
  const answer = await db.execute(sql`select money_leases_end(null) as count`)
  return (answer as unknown as readonly { count: number }[])[0]?.count ?? 0
}
