import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLedger } from '../../src/actors/ledger.ts'
import { openDatabase } from '../../src/db/client.ts'
import { startEmbedded } from '../../src/db/embedded.ts'
import { migrateDatabase } from '../../src/db/migrate.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { chargeFor, expectBooksBalance, fundedCustomer } from '../support/ledger.ts'

const rounds = 4
const inFlight = 24

/** The server and all of its sessions at once: nothing that waits in memory reaches the disk. */
function killServer(serverPid: number): void {
  const children = Bun.spawnSync(['pgrep', '-P', String(serverPid)])
    .stdout.toString()
    .trim()
    .split('\n')
  for (const pid of [serverPid, ...children.map(Number)]) process.kill(pid, 'SIGKILL')
}

test('§13: kill -9 of the database between reserve and charge: all work is charged once, the books balance', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ledger-crash-'))
  const log = createLog('silent', () => {})
  const embedded = await startEmbedded({ dataDir: join(folder, 'data'), log, preferNobody: true })
  try {
    await migrateDatabase(embedded.url)
    const { db, sql, close } = openDatabase({ url: embedded.url, connectionsMax: 4 })
    const ledger = createLedger({ db, log })
    const customerId = await fundedCustomer({ sql }, 1_000_000n)
    for (let round = 0; round < rounds; round++) {
      const [server] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
      const serverPid = Number((await Bun.file(`/proc/${server?.pid}/stat`).text()).split(' ')[3])
      const reserve = () => ledger.reserve({ id: newId('req'), customerId, amountWei: 10n })
      const held = await Promise.all(Array.from({ length: inFlight }, reserve))
      killServer(serverPid)
      const charges = held.map((reservation) => ledger.settle(reservation, chargeFor(customerId, 7n)))
      for (const { outcome } of await Promise.all(charges)) expect(outcome).toBe('settled')
    }
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
}, 120_000)
