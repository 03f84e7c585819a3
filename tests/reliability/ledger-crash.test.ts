import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { openDatabase } from '../../src/db/client.ts'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrateDatabase } from '../../src/db/migrate.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { chargeFor, expectBooksBalance, fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { killServer } from '../support/run/kill-server.ts'

const rounds = 4
const inFlight = 24

test('§13: kill -9 of the database between reserve and charge: all work is charged once, the books balance', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ledger-crash-'))
  let said = ''
  const log = createLog('warn', (text) => {
    said += text
  })
  const embedded = await startEmbedded({ dataDir: join(folder, 'data'), log, preferNobody: true })
  try {
    await migrateDatabase(embedded.url)
    const { db, sql, close } = openDatabase({ url: embedded.url, connectionsMax: 4 })
    const ledger = new Ledger({ macs: testMacs, db, sql, log })
    const customerId = await fundedCustomer({ sql }, 1_000_000n)
    for (let round = 0; round < rounds; round++) {
      const reserve = () => ledger.reserve({ id: newId('req'), customerId, amountWei: 10n })
      const held = await Promise.all(Array.from({ length: inFlight }, reserve))
      await killServer(sql)
      const charges = held.map((reservation) => ledger.settle(reservation, chargeFor(customerId, 7n)))
      for (const { outcome } of await Promise.all(charges)) expect(outcome).toBe('settled')
    }
    log.flush()
    // Else nothing was put to the test.
    expect(said).toContain('"event":"reservation_lost"')
    await expectBooksBalance(db)
    const [row] = await sql`select balance_wei::int as balance, reserved_wei::int as reserved from customers
      where customer_id = ${customerId}`
    expect(row).toEqual({ balance: 1_000_000 - rounds * inFlight * 7, reserved: 0 })
    await ledger.stop()
    await close()
  } finally {
    await embedded.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})
