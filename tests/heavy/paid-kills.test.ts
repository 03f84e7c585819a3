import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  expectReleased,
  type PaidPool,
  paidRound,
  type StormCount,
  startPaidPool,
} from '../support/pools/paid-storm.ts'

const rounds = 20

let pool: PaidPool
beforeAll(async () => {
  pool = await startPaidPool()
}, 30_000)
afterAll(() => pool.stop())

test(`§13: ${rounds} times kill -9 under paid load: the books balance after each`, async () => {
  const seen: StormCount[] = []
  for (let round = 1; round <= rounds; round++) seen.push(await paidRound(pool, round))
  console.table(seen)
  expect(seen.some(({ openAfterKill }) => openAfterKill > 0)).toBe(true)
  expect(seen.some(({ leasedAfterKill }) => leasedAfterKill > 0n)).toBe(true)
  await expectReleased(pool)
})
