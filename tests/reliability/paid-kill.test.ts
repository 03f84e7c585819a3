import { expect, test } from 'bun:test'
import { expectReleased, paidRound, startPaidPool } from '../support/pools/paid-storm.ts'
import { fixture } from '../support/run/fixture.ts'

const pool = await fixture(startPaidPool())

test('§13: kill -9 under paid load: never overdrawn, nothing lost, the books balance; what was open is released', async () => {
  const { answered, debits, openAfterKill, leasedAfterKill } = await paidRound(pool, 1)
  expect(answered).toBeGreaterThan(100)
  expect(debits).toBeGreaterThanOrEqual(answered)
  expect(openAfterKill).toBeGreaterThan(0)
  expect(leasedAfterKill).toBeGreaterThan(0n)
  await expectReleased(pool)
})
