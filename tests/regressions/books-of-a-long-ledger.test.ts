import { expect, test } from 'bun:test'
import { openDatabase } from '../../src/db/client.ts'
import { type Books, readBooks } from '../../src/db/queries/money/ledger-proof.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { scoped } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Found by 240,000 hostile cases: the proof of the books is one statement over the whole ledger, and had the bound of every
 * other statement, 15 s, so that the books of a long ledger were never proven. Fix: it has minutes.
 */
test('§13: the books of a ledger are proven however long that takes', async () => {
  await using database = await scoped(testDatabase({ connectionsMax: 4 }))
  await fundedCustomer(database, 7n)
  await using impatient = await scoped(openDatabase({ url: database.url, connectionsMax: 1, statementTimeoutMs: 100 }))
  let books: Promise<Books> | null = null
  await database.sql.begin(async (tx) => {
    await tx`lock table ledger_rows in access exclusive mode`
    books = readBooks(impatient.db)
    // A failure shows below; here nobody waits for it yet.
    books.catch(() => {})
    const waitsLongerThanItsBound = async () => {
      const [row] = await database.sql<{ waits: boolean }[]>`
          select coalesce(bool_or(clock_timestamp() - query_start > '200ms'), false) as waits
          from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
      return row?.waits === true
    }
    await waitUntil('the proof has waited for longer than a statement may', waitsLongerThanItsBound)
  })
  expect((await (books as unknown as Promise<Books>)).sums.admin_credit).toBe(7n)
})
