import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { CustomerId } from '../../../ids.ts'
import { minuteMs } from '../../../time.ts'
import { arrayOf } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import { idempotencyKeys } from '../../schema/idempotency.ts'

export type IdempotencyRow = typeof idempotencyKeys.$inferSelect

/** By what a key is known, and whose it is: another request may have it by now. */
export interface ClaimedKey {
  readonly customerId: string
  readonly keyHash: Buffer
  readonly requestId: string
}

export interface IdempotencyClaim extends ClaimedKey {
  readonly fingerprint: Buffer
}

/** One of several charges of a request with a key. */
export interface KeyedCharge {
  readonly key: ClaimedKey
  readonly receiptHash: string
}

export interface IdempotentOutcome extends KeyedCharge {
  readonly usage: NonNullable<IdempotencyRow['usage']>
}

/** Between a claim and its reservation: longer than both take where the database is slow, leases are recalled, and it is asked again, ms. */
const beingReservedMs = 2 * minuteMs

/**
 * A claim whose gateway died has an uncharged reservation, or still no reservation after `beingReservedMs`. A charge of 0 leaves a receipt. What
 * was charged in part is not free.
 */
const abandoned = sql`(${idempotencyKeys.status} = 'in_progress' and ${idempotencyKeys.receiptHash} is null
  and ${idempotencyKeys.createdAt} < now() - interval '${sql.raw(String(beingReservedMs))} ms'
  and not exists (select 1 from reservations r where r.reservation_id = ${idempotencyKeys.requestId}
    and (r.status <> 'released' or r.receipt_hash is not null)))`

/** A key, and whether its request was charged in part and has ended without saying so: its gateway has died. */
export interface KeyState {
  readonly row: IdempotencyRow
  readonly cutShort: boolean
}

function keyState(runsMsMax: number) {
  const late = sql`${idempotencyKeys.createdAt} < now() - ${runsMsMax}::bigint * interval '1 ms'`
  const cutShort = sql<boolean>`${idempotencyKeys.status} = 'in_progress' and ${idempotencyKeys.receiptHash} is not null
    and ${late} and not exists (select 1 from reservations r where r.reservation_id = ${idempotencyKeys.requestId} and r.status = 'open')`
  return { row: idempotencyKeys, cutShort }
}

/** The state of the key: the caller's own claim, or whose it is. `runsMsMax`: no request runs longer. */
export async function claimKey(
  db: Database,
  claim: IdempotencyClaim,
  { ttlMs, runsMsMax }: { readonly ttlMs: number; readonly runsMsMax: number },
): Promise<KeyState> {
  const customerId = claim.customerId as CustomerId
  const mine = and(eq(idempotencyKeys.customerId, customerId), eq(idempotencyKeys.keyHash, claim.keyHash))
  const row = {
    ...claim,
    customerId,
    status: 'in_progress' as const,
    receiptHash: null,
    usage: null,
    httpStatus: null,
    completedAt: null,
    expiresAt: sql`now() + ${ttlMs}::bigint * interval '1 ms'`,
  }
  const again = sql`(${idempotencyKeys.requestId} = ${claim.requestId} and ${idempotencyKeys.status} = 'in_progress'
    and ${idempotencyKeys.receiptHash} is null)`
  for (;;) {
    const [claimed] = await db
      .insert(idempotencyKeys)
      .values(row)
      .onConflictDoUpdate({
        target: [idempotencyKeys.customerId, idempotencyKeys.keyHash],
        set: { ...row, createdAt: sql`now()` },
        setWhere: sql`${abandoned} or ${idempotencyKeys.expiresAt} < now() or ${again}`,
      })
      .returning()
    if (claimed !== undefined) return { row: claimed, cutShort: false }
    const [held] = await db.select(keyState(runsMsMax)).from(idempotencyKeys).where(mine)
    // Released between the two statements: it is free now.
    if (held !== undefined) return held
  }
}

/** The key under this hash, if another request has it; null: it is free. */
export async function keyOfAnother(
  db: Database,
  { customerId, keyHash, requestId }: ClaimedKey,
  { runsMsMax }: { readonly runsMsMax: number },
): Promise<KeyState | null> {
  const [held] = await db
    .select(keyState(runsMsMax))
    .from(idempotencyKeys)
    .where(
      and(
        eq(idempotencyKeys.customerId, customerId as CustomerId),
        eq(idempotencyKeys.keyHash, keyHash),
        sql`${idempotencyKeys.requestId} <> ${requestId} and ${idempotencyKeys.expiresAt} > now() and not ${abandoned}`,
      ),
    )
  return held ?? null
}

/** What is joined with the rows of these keys, as `k`, with the further columns of `more`. By their keys: by the ids of requests it would be a scan of all. */
function ofKeys(keys: readonly ClaimedKey[], more: Readonly<Record<string, readonly string[]>>): SQL {
  const columns = {
    customer: keys.map(({ customerId }) => customerId),
    hash: keys.map(({ keyHash }) => keyHash.toString('hex')),
    id: keys.map(({ requestId }) => requestId),
    ...more,
  }
  const arrays = sql.join(
    Object.values(columns).map((values) => arrayOf('text', values)),
    sql`, `,
  )
  return sql`unnest(${arrays}) as q (${sql.raw(Object.keys(columns).join())})
    where k.customer_id = q.customer and k.key_hash = decode(q.hash, 'hex') and k.request_id = q.id and k.status = 'in_progress'`
}

const keysOf = (charges: readonly KeyedCharge[]) => charges.map(({ key }) => key)
const receiptsOf = (charges: readonly KeyedCharge[]) => charges.map(({ receiptHash }) => receiptHash)

/** In the transaction of the charges: their keys are not free any more, whatever becomes of their requests. The first receipt stands. */
export async function keepChargedKeys(tx: Database, charges: readonly KeyedCharge[]): Promise<void> {
  if (charges.length === 0) return
  await tx.execute(sql`update idempotency_keys k set receipt_hash = q.receipt
    from ${ofKeys(keysOf(charges), { receipt: receiptsOf(charges) })} and k.receipt_hash is null`)
}

/**
 * In the transaction of the charge. Of several charges the receipt stays that `keepChargedKeys` has written: the one given may be of a charge that came
 * too late.
 */
export async function completeKeys(tx: Database, outcomes: readonly IdempotentOutcome[]): Promise<void> {
  if (outcomes.length === 0) return
  const used = outcomes.map(({ usage }) => JSON.stringify(usage))
  await tx.execute(sql`update idempotency_keys k set status = 'completed', receipt_hash = coalesce(k.receipt_hash, q.receipt), usage = q.used::jsonb,
      http_status = 200, completed_at = now()
    from ${ofKeys(keysOf(outcomes), { receipt: receiptsOf(outcomes), used })}`)
}

/** Nothing was billed: these keys are free again. */
export async function releaseKeys(db: Database, keys: readonly ClaimedKey[]): Promise<void> {
  await db.execute(sql`delete from idempotency_keys k using ${ofKeys(keys, {})} and k.receipt_hash is null`)
}

/** In one statement: one for all of a day would take longer than a statement may, and a client that uses an old key again would wait for it. */
const droppedAtOnce = 1_000

export async function dropOldKeys(db: Database): Promise<void> {
  for (let dropped = droppedAtOnce; dropped === droppedAtOnce; ) {
    const gone = await db.execute(sql`delete from idempotency_keys where ctid = any (array(
      select ctid from idempotency_keys where expires_at < now() order by expires_at limit ${droppedAtOnce} for update skip locked))`)
    dropped = gone.count
  }
}
