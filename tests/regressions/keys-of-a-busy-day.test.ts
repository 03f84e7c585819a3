import { expect, test } from 'bun:test'
import { dropOldKeys } from '../../src/db/queries/accounts/idempotency.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: idempotency keys that are too old to be used could stay for ever, more of them each hour.
 * Cause: one statement removed them all, and a statement may take 15 s. Of millions, as after a day without a gateway, it would not come to its end, in no
 * hour that followed; a client that used an old key again waited for it.
 * Fix: a thousand for each statement.
 */
const { db, sql } = await fixture(testDatabase())
const count = 2_500

test('§5: old keys are removed in statements of a bounded length, and the others stay', async () => {
  const customerId = await fundedCustomer({ sql }, 0n)
  const insert = (from: number, to: number, expires: string) => sql`
    insert into idempotency_keys (customer_id, key_hash, fingerprint, request_id, expires_at)
    select ${customerId}, int4send(n), int4send(n), 'req_' || n, now() + ${expires}::interval
    from generate_series(${from}::int, ${to}::int) as n`
  await insert(1, count, '-1 s')
  await insert(count + 1, count + 3, '1 hour')
  await sql.unsafe(`
    create table removed (rows int);
    create function removing() returns trigger language plpgsql as $$
      begin insert into removed select count(*) from gone; return null; end $$;
    create trigger removing after delete on idempotency_keys referencing old table as gone
      for each statement execute function removing()`)
  await dropOldKeys(db)
  const [left] = await sql`select count(*)::int as keys from idempotency_keys`
  expect(left).toEqual({ keys: 3 })
  const rows = (await sql<{ rows: number }[]>`select rows from removed`).map((each) => each.rows)
  expect([rows.reduce((sum, each) => sum + each, 0), Math.max(...rows)]).toEqual([count, 1_000])
})
