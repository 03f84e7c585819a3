import { expect, test } from 'bun:test'
import { LimitLease } from '../../../src/actors/limits/limit-lease.ts'
import { type LeaseMessage, type LeaseState, limitQueries } from '../../../src/db/queries/accounts/limits.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())
const queries = limitQueries(database.db)

const day = '2026-11-20'
type Sync = (limit: number, message: LeaseMessage) => Promise<LeaseState | null>

/** A lease on a quota of 100 in the real database, whose answers pass through `way`. */
function quotaLease(customerId: string, way: (sync: Sync) => Sync) {
  let now = 1_000
  const sync: Sync = (limit, message) => queries.quota(customerId, day, limit, message)
  const failures: unknown[] = []
  const lease = new LimitLease({
    now: () => now,
    sync: way(sync),
    holds: true,
    expires: false,
    reservePart: 2,
    ttlMs: 15_000,
    failed: (error) => failures.push(error),
  })
  lease.setLimit(100)
  return { lease, failures, pass: (ms: number) => (now += ms) }
}

const taken = async (customerId: string) =>
  Number((await database.sql`select taken from quota_days where customer_id = ${customerId}`)[0]?.taken)

test('§17: while a smaller share is being stated only the smaller one is spent', async () => {
  let held: PromiseWithResolvers<void> | null = null
  const { lease } = quotaLease('shrink', (sync) => async (limit, message) => {
    const state = await sync(limit, message)
    await held?.promise
    return state
  })
  await lease.take(5)
  await lease.take(5)
  expect(await taken('shrink')).toBeGreaterThan(10)
  held = Promise.withResolvers()
  lease.asked()
  // The database may have given the reserve to somebody else already.
  await waitUntil('the reserve is back', async () => (await taken('shrink')) === 10)
  expect(lease.tryTake(5)).toBeNull()
  const waiting = lease.take(5)
  held.resolve()
  expect(await waiting).toMatchObject({ kind: 'taken' })
  expect(await taken('shrink')).toBeGreaterThanOrEqual(15)
})

test('§17: an answer that was lost is asked for again and counts once', async () => {
  let lose = true
  const { lease, failures, pass } = quotaLease('lost answer', (sync) => async (limit, message) => {
    const state = await sync(limit, message)
    if (lose) throw new Error('connection closed')
    return state
  })
  expect(await lease.take(40)).toEqual({ kind: 'away' })
  expect(failures).toHaveLength(1)
  expect(await taken('lost answer')).toBe(40)
  lose = false
  pass(1_000)
  expect(await lease.take(100)).toMatchObject({ kind: 'taken' })
  expect(await lease.take(1)).toMatchObject({ kind: 'refused' })
  expect(await taken('lost answer')).toBe(100)
})

test('§17: a message that arrives after a later one changes nothing', async () => {
  const late: { limit: number; message: LeaseMessage }[] = []
  let lose = false
  const { lease, failures, pass } = quotaLease('late', (sync) => async (limit, message) => {
    if (!lose) return sync(limit, message)
    late.push({ limit, message })
    throw new Error('sent, not answered')
  })
  await lease.take(10)
  await lease.take(10)
  lose = true
  await waitUntil('the reserve is offered', () => {
    lease.asked()
    return failures.length > 0
  })
  lose = false
  pass(1_000)
  expect(await lease.take(60)).toMatchObject({ kind: 'taken' })
  const before = await taken('late')
  expect(before).toBeGreaterThanOrEqual(80)
  for (const { limit, message } of late) expect(await queries.quota('late', day, limit, message)).toBeNull()
  expect(await taken('late')).toBe(before)
})

test('§17: a database that never answers makes nobody wait for long, and is asked again', async () => {
  let silent = true
  const { lease, failures, pass } = quotaLease('silent', (sync) => (limit, message) => {
    return silent ? new Promise(() => {}) : sync(limit, message)
  })
  expect(await lease.take(1)).toEqual({ kind: 'away' })
  // And for a moment nobody waits at all.
  await waitUntil('it was given up', () => failures.length === 1)
  expect(lease.take(1)).toEqual({ kind: 'away' })
  silent = false
  pass(1_000)
  await waitUntil('it answers', async () => (await lease.take(1)).kind === 'taken')
})

test('§17: a lease that was swept away begins anew; what is given back to the old one is not spent twice', async () => {
  const { lease } = quotaLease('swept', (sync) => sync)
  const first = await lease.take(30)
  await database.sql`delete from quota_leases where customer_id = 'swept'`
  expect(await lease.take(70)).toMatchObject({ kind: 'taken' })
  if (first.kind === 'taken') lease.giveBack(30, first.epoch)
  expect(await lease.take(1)).toMatchObject({ kind: 'refused' })
  expect(await taken('swept')).toBe(100)
})
