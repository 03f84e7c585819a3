import { expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { chargeFor, fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** Its entries are those of all reservations there ever were, until it is vacuumed. */
const openIndex = 'reservations_expires_at_index'

test('§13: a charge finds its reservations by their ids and never reads the index of the open ones', async () => {
  const database = await testDatabase({ connectionsMax: 4 })
  // Each reservation is a row.
  const leases = { from: Number.POSITIVE_INFINITY }
  const ledger = new Ledger({ macs: testMacs, ...database, log: createLog('silent', () => {}), leases })
  try {
    /** undefined: no such index. */
    const scans = async (index: string) => {
      const [row] = await database.sql<{ scans: number }[]>`
        select idx_scan::int as scans from pg_stat_user_indexes where indexrelname = ${index}`
      return row?.scans
    }
    const id = await fundedCustomer(database, 1_000_000n)
    const pay = async () => {
      const held = await ledger.reserve({ id: newId('req'), customerId: id, amountWei: 10n })
      await ledger.settle(held, chargeFor(id, 5n))
    }
    for (let group = 0; group < 12; group++) await Promise.all(Array.from({ length: 64 }, pay))
    // Sessions report what they read after a second at the earliest.
    await waitUntil('the reads are counted', async () => ((await scans('reservations_pkey')) ?? 0) >= 12 * 64)
    expect(await scans(openIndex)).toBe(0)
  } finally {
    await ledger.stop()
    await database.drop()
  }
})
