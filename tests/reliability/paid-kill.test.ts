import { afterAll, beforeAll, expect, test } from 'bun:test'
import { expectReleased, type PaidPool, paidRound, startPaidPool } from '../support/pools/paid-storm.ts'

let pool: PaidPool
beforeAll(async () => {
  pool = await startPaidPool()
})
afterAll(() => pool.stop())

test('§13: kill -9 under paid load: never overdrawn, nothing lost, the books balance; what was open is released', async () => {
  const { answered, debits, openAfterKill, leasedAfterKill } = await paidRound(pool, 1)
  expect(answered).toBeGreaterThan(100)
  expect(debits).toBeGreaterThanOrEqual(answered)
  expect(openAfterKill).toBeGreaterThan(0)
  expect(leasedAfterKill).toBeGreaterThan(0n)
  await expectReleased(pool)
})
