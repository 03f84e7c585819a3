import { expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { chargeFor, fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * Seen: a charge under a lease cost 60 µs, and 330 after 5,000 others. Cause: it looks for its receipt among those that are there, and the
 * plan, made once while the table was empty, read the whole table for each group. Since then it looks at the groups alone in which it was sent
 * before.
 */
test('§13: a charge under a lease reads no receipt but its own, also if the plan was made when there was none', async () => {
  const database = await testDatabase({ connectionsMax: 1 })
  const ledger = new Ledger({ macs: testMacs, ...database, log: createLog('silent', () => {}) })
  try {
    const id = await fundedCustomer(database, 1_000_000n)
    const pay = async () => {
      const held = await ledger.reserve({ id: newId('req'), customerId: id, amountWei: 10n })
      await ledger.settle(held, chargeFor(id, 5n))
    }
    for (let group = 0; group < 12; group++) await Promise.all(Array.from({ length: 64 }, pay))
    const [written] = await database.sql<{ leased: number; grouped: number }[]>`
      select (select coalesce(sum(rows), 0)::int from charge_groups where reserve_seq is not null) as leased,
        (select coalesce(sum(rows), 0)::int from receipt_groups where billed) as grouped`
    expect(written?.leased).toBeGreaterThan(6 * 64)
    expect(written?.grouped).toBe(written?.leased)
    const counted = async () => {
      const [row] = await database.sql<{ written: number; read: number }[]>`
        select sum(n_tup_ins) filter (where relname = 'receipt_groups')::int as written,
          sum(seq_tup_read + idx_tup_fetch)::int as read
        from pg_stat_user_tables where relname in ('receipt_groups', 'charge_groups', 'receipt_rows')`
      return row ?? { written: 0, read: 0 }
    }
    // Sessions report what they read after a second at the earliest.
    const groups = Math.floor((written?.leased ?? 0) / 64)
    await waitUntil('the reads are counted', async () => (await counted()).written >= groups)
    expect((await counted()).read).toBeLessThan(12 * 64)
  } finally {
    await ledger.stop()
    await database.drop()
  }
})
