import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { openDatabase } from '../../src/db/client.ts'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrateDatabase } from '../../src/db/migrate.ts'
import { Problem } from '../../src/errors.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { expectSound } from '../support/money/groups.ts'
import { chargeFor, fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { killServer } from '../support/run/kill-server.ts'
import { turn } from '../support/run/turn.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const kills = Number(process.env.PENSTOCK_DATABASE_KILLS ?? 10)
/** Two gateways, each with so many requests at once on each of two customers: all lease. */
const clients = 16
const chargesPerKill = 400
const credit = 10n ** 9n
const wei = 7n

test(`§13: PostgreSQL is killed ${kills} times under leased charges: each is on the books once, with its receipt`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'leased-crash-'))
  const log = createLog('silent', () => {})
  const embedded = await startEmbedded({ dataDir: join(folder, 'data'), log, preferNobody: true })
  try {
    await migrateDatabase(embedded.url)
    const opened = [1, 2].map(() => openDatabase({ url: embedded.url, connectionsMax: 4 }))
    const ledgers = opened.map((own) => new Ledger({ macs: testMacs, ...own, log }))
    for (const ledger of ledgers) await ledger.start()
    const watcher = openDatabase({ url: embedded.url, connectionsMax: 2 })
    const ids = [await fundedCustomer(watcher, credit), await fundedCustomer(watcher, credit)]
    const settled = new Map<string, string>()
    let [running, late] = [true, 0]
    const pay = async (ledger: Ledger, customerId: string) => {
      const reserving = Promise.resolve(ledger.reserve({ id: newId('req'), customerId, amountWei: 10n }))
      const held = await reserving.catch((error: unknown) => {
        if (error instanceof Problem) return null
        throw error
      })
      if (held === null) return turn()
      const charge = chargeFor(customerId, wei)
      const { outcome } = await ledger.settle(held, charge)
      if (outcome === 'settled') settled.set(charge.receipt.hash, customerId)
      else late++
    }
    const client = async (ledger: Ledger, customerId: string) => {
      while (running) await pay(ledger, customerId)
    }
    const load = ledgers.flatMap((ledger) =>
      ids.flatMap((id) => Array.from({ length: clients }, () => client(ledger, id))),
    )
    const leased = async () => {
      const [row] = await watcher.sql<{ charges: number }[]>`
        select coalesce(sum(rows), 0)::int as charges from charge_groups where reserve_seq is not null`
      return row?.charges ?? 0
    }
    for (let kill = 0; kill < kills; kill++) {
      const goal = settled.size + chargesPerKill
      await waitUntil('charges', () => settled.size >= goal, 60_000)
      await waitUntil(
        'the server answers',
        () =>
          killServer(watcher.sql).then(
            () => true,
            () => false,
          ),
        60_000,
      )
    }
    await waitUntil('charges behind the last kill', () => settled.size >= chargesPerKill * (kills + 1), 60_000)
    running = false
    await Promise.all(load)
    expect(await leased()).toBeGreaterThan(chargesPerKill * kills * 0.5)
    for (const ledger of ledgers) await ledger.stop()
    await expectSound(watcher)
    const debits = await watcher.sql<{ hash: string; id: string; amount: string }[]>`
      select receipt_hash as hash, customer_id as id, amount_wei::text as amount from ledger_entries where kind = 'debit'`
    // Each client waited for the end of its charge, whatever became of the server meanwhile.
    expect(new Map(debits.map(({ hash, id }) => [hash, id]))).toEqual(settled)
    expect(debits).toHaveLength(settled.size)
    const [receipts] = await watcher.sql`select count(*)::int as count, count(distinct receipt_hash)::int as hashes
      from receipts where billed`
    expect(receipts).toEqual({ count: settled.size, hashes: settled.size })
    for (const id of ids) {
      const spent = BigInt(debits.filter((debit) => debit.id === id).length) * wei
      const [row] = await watcher.sql`select balance_wei::text as balance, reserved_wei::text as reserved,
        leased_wei::text as leased from customers where customer_id = ${id}`
      expect(row).toMatchObject({ balance: String(credit - spent), leased: '0' })
    }
    console.table([{ kills, charges: settled.size, leased: await leased(), late }])
    for (const each of [...opened, watcher]) await each.close()
  } finally {
    await embedded.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})
