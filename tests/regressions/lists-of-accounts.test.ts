import { expect, test } from 'bun:test'
import { listCustomers, listKeys } from '../../src/db/queries/accounts/accounts.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const accounts = 5_000

/** One connection, whose own counts are told at once. */
const database = await fixture(testDatabase({ connectionsMax: 1 }))
const { sql } = database
await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed, created_at)
    select 'cus_' || n, 'customer', sha256(n::text::bytea), '', now() - n * interval '1 second' from generate_series(1, ${accounts}::int) n`
await sql`insert into gateway_keys (key_id, customer_id, key_hash, display_prefix, name, created_at)
    select 'key_' || n, 'cus_' || n, sha256(n::text::bytea), '', 'key', now() - n * interval '1 second' from generate_series(1, ${accounts}::int) n`
await sql`analyze customers, gateway_keys`

/** How often one of the two tables has been read from end to end. */
async function scans(): Promise<number> {
  const { sql } = database
  await sql`select pg_stat_force_next_flush()`
  const [row] = await sql<{ scans: number }[]>`
    select sum(seq_scan)::int as scans from pg_stat_user_tables where relname in ('customers', 'gateway_keys')`
  return row?.scans ?? Number.NaN
}

test('lists of customers and keys begin with the newest, and read no table from end to end', async () => {
  const { db, sql } = database
  const before = await scans()
  expect((await listCustomers(db, 3, null)).map(({ customerId }) => customerId)).toEqual(['cus_1', 'cus_2', 'cus_3'])
  expect((await listCustomers(db, 2, 'cus_3000')).map(({ customerId }) => customerId)).toEqual(['cus_3001', 'cus_3002'])
  expect((await listKeys(db, null, 3)).map(({ keyId }) => keyId)).toEqual(['key_1', 'key_2', 'key_3'])
  expect((await listKeys(db, 'cus_9', 3)).map(({ keyId }) => keyId)).toEqual(['key_9'])
  expect(await scans()).toBe(before)
  // It would be seen.
  await sql`select count(*) from customers`
  expect(await scans()).toBeGreaterThan(before)
})
