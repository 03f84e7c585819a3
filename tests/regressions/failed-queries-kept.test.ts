import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import { sql } from 'drizzle-orm'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())

const failing = 1_000

async function fail(): Promise<number> {
  let failed = 0
  for (let at = 0; at < failing; at++) {
    await database.db.execute(sql`select 1 / ${0}::int`).catch(() => failed++)
  }
  return failed
}

function arrays(): number {
  Bun.gc(true)
  return heapStats().objectTypeCounts.Array ?? 0
}

test('a query that fails leaves nothing of itself behind: each outage of the database cost memory for ever', async () => {
  expect(await fail()).toBe(failing)
  const before = arrays()
  expect(await fail()).toBe(failing)
  expect(arrays() - before).toBeLessThan(failing / 2)
})
