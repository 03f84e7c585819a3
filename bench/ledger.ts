import { join } from 'node:path'
import { Ledger } from '../src/actors/money/ledger.ts'
import { type Database, openDatabase } from '../src/db/client.ts'
import { startEmbedded } from '../src/db/embedded/embedded.ts'
import { migrateDatabase } from '../src/db/migrate.ts'
import { reserveAll, settleAll } from '../src/db/queries/money/ledger.ts'
import { readBooks } from '../src/db/queries/money/ledger-proof.ts'
import { newId } from '../src/ids.ts'
import { createLog } from '../src/log.ts'
import { brokenRules } from '../src/machines/rules/books.ts'
import { chargeFor, fundedCustomer } from '../tests/support/money/ledger.ts'
import { marked, testMacs } from '../tests/support/money/receipt-macs.ts'
import type { Options } from './options.ts'
import { circumstances } from './results.ts'
import { RigError, stopAll, temporaryFolder } from './rig.ts'
import { markdown, median } from './table.ts'

const clients = 64
const reservedWei = 1_000n
const chargedWei = 600n
const reservedMs = 900_000

/** Reserves and settles one request, with its receipt, payout and fee. */
type Pay = (customerId: string) => Promise<unknown>

interface Measured {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

async function measure(customerId: string, pay: Pay, secs: number): Promise<Measured> {
  const delays: number[] = []
  const began = performance.now()
  const until = began + secs * 1_000
  const client = async () => {
    while (performance.now() < until) {
      const at = performance.now()
      await pay(customerId)
      delays.push(performance.now() - at)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const sorted = delays.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
  return { perSecond: (delays.length * 1_000) / (performance.now() - began), p50Ms: at(0.5), p99Ms: at(0.99) }
}

/** As an ORM would: each request its own transactions, all on the row of the one customer. */
const alone =
  (db: Database): Pay =>
  async (customer) => {
    const id = newId('req')
    const entry = { id, customer, amountWei: reservedWei, entry: newId('led'), job: null }
    await reserveAll(db, [entry], reservedMs)
    const ids = { debit: newId('led'), release: newId('led'), payout: newId('pay'), fee: newId('fee') }
    const { receipt, nodeId, kind } = chargeFor(customer, chargedWei)
    const feeWei = chargedWei / 10n
    const split = { chargedWei, shareWei: chargedWei - feeWei, feeWei, receiptHash: receipt.hash, node: nodeId, kind }
    await settleAll(db, [{ id, ...split, held: false, ...ids }], [marked({ ...receipt, billed: true })])
  }

function rowOf(name: string, rounds: readonly Measured[]): string[] {
  const middle = (of: (round: Measured) => number) => median(rounds.map(of))
  return [
    name,
    middle(({ perSecond }) => perSecond).toFixed(0),
    middle(({ p50Ms }) => p50Ms).toFixed(1),
    middle(({ p99Ms }) => p99Ms).toFixed(1),
  ]
}

/** Paid requests a second through the ledger, 64 at once on one customer: a transaction each, and in groups. */
export async function benchLedger(options: Options): Promise<string> {
  const log = createLog('silent', () => {})
  const embedded = await startEmbedded({ dataDir: join(temporaryFolder(), 'data'), log, preferNobody: true })
  try {
    await migrateDatabase(embedded.url)
    const { db, sql, close } = openDatabase({ url: embedded.url, connectionsMax: 16 })
    const ledger = new Ledger({ macs: testMacs, db, sql, log })
    const grouped: Pay = async (customerId) => {
      const held = await ledger.reserve({ id: newId('req'), customerId, amountWei: reservedWei })
      await ledger.settle(held, chargeFor(customerId, chargedWei))
    }
    const ways = { 'a transaction each': alone(db), 'in groups': grouped }
    const rounds = new Map<string, Measured[]>(Object.keys(ways).map((name) => [name, []]))
    for (let round = 0; round < options.rounds; round++) {
      for (const [name, pay] of Object.entries(ways)) {
        const customerId = await fundedCustomer({ sql }, 10n ** 30n)
        const seen = await measure(customerId, pay, options.secs)
        rounds.get(name)?.push(seen)
        process.stderr.write(`${name} ${round + 1}: ${seen.perSecond.toFixed(0)}/s p50 ${seen.p50Ms.toFixed(1)} ms\n`)
      }
    }
    const broken = brokenRules(await readBooks(db))
    const { groups, requests } = ledger.state()
    await ledger.stop()
    await close()
    if (broken.length > 0) throw new RigError(`the books do not balance: ${broken.join('; ')}`)
    const table = markdown(
      ['', 'paid requests/s', 'p50 ms', 'p99 ms'],
      [...rounds].map(([name, seen]) => rowOf(name, seen)),
    )
    const load = `${options.rounds} rounds of ${options.secs} s, ${clients} at once on one customer, fsync on, bench and database share the machine`
    const sizes = `A group had ${(requests / groups).toFixed(0)} of its kind on average. The books balance.`
    return ['## The ledger', circumstances(load), table, sizes].join('\n\n')
  } finally {
    await embedded.stop()
    await stopAll()
  }
}
