import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLedger } from '../src/actors/ledger.ts'
import { type Database, openDatabase } from '../src/db/client.ts'
import { startEmbedded } from '../src/db/embedded.ts'
import { migrateDatabase } from '../src/db/migrate.ts'
import { reserveAll, settleAll } from '../src/db/queries/ledger.ts'
import { readBooks } from '../src/db/queries/ledger-proof.ts'
import { newId } from '../src/ids.ts'
import { createLog } from '../src/log.ts'
import { brokenRules } from '../src/machines/rules/books.ts'
import { chargeFor, fundedCustomer } from '../tests/support/ledger.ts'

/**
 * Paid requests a second through the ledger, reserve and settle, 64 at once on one customer: in groups, and with a
 * transaction each. A PostgreSQL of its own with fsync on. `node scripts/bun.mjs bench/ledger.ts`
 */
const clients = 64
const runMs = 3_000
const log = createLog('silent', () => {})
const amountWei = 1_000n

type Pay = (customerId: string) => Promise<unknown>

async function measure(customerId: string, pay: Pay) {
  const delays: number[] = []
  const until = performance.now() + runMs
  const client = async () => {
    while (performance.now() < until) {
      const began = performance.now()
      await pay(customerId)
      delays.push(performance.now() - began)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const sorted = delays.toSorted((a, b) => a - b)
  const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(1)
  return [Math.round((delays.length * 1_000) / runMs), at(0.5), at(0.99)].map(String)
}

/** As an ORM would: each request its own transactions, all on the row of the one customer. */
const alone =
  (db: Database): Pay =>
  async (customer) => {
    const id = newId('req')
    await reserveAll(db, [{ id, customer, amountWei, entry: newId('led'), job: null }], 900_000)
    const ids = { debit: newId('led'), release: newId('led'), payout: newId('pay'), fee: newId('fee') }
    const { receipt, nodeId, kind } = chargeFor(customer, amountWei)
    const charge = { chargedWei: 600n, shareWei: 540n, feeWei: 60n, receiptHash: receipt.hash, node: nodeId, kind }
    await settleAll(db, [{ id, ...charge, held: false, ...ids }])
  }

const dataDir = mkdtempSync(join(tmpdir(), 'penstock-bench-'))
const embedded = await startEmbedded({ dataDir, log, preferNobody: true })
await migrateDatabase(embedded.url)
const { db, sql, close } = openDatabase({ url: embedded.url, connectionsMax: 16 })
const ledger = createLedger({ db, log })
const customer = () => fundedCustomer({ sql }, 10n ** 30n)
const grouped: Pay = async (customerId) => {
  const held = await ledger.reserve({ id: newId('req'), customerId, amountWei })
  await ledger.settle(held, chargeFor(customerId, 600n))
}
const rows = [
  ['a transaction each', ...(await measure(await customer(), alone(db)))],
  ['in groups', ...(await measure(await customer(), grouped))],
]
const broken = brokenRules(await readBooks(db))
await ledger.stop()
await close()
await embedded.stop()
rmSync(dataDir, { recursive: true, force: true })
if (broken.length > 0) throw new Error(`the books do not balance: ${broken.join('; ')}`)
process.stdout.write(`ledger\tpaid/s\tp50 ms\tp99 ms\n${rows.map((row) => row.join('\t')).join('\n')}\n`)
