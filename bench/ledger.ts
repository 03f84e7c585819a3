import { readFileSync } from 'node:fs'
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
import { cpuSeconds, descendants, RigError, stopAll, temporaryFolder } from './rig.ts'
import { markdown, median } from './table.ts'

/** At once, on so many customers. */
interface Load {
  readonly clients: number
  readonly customers: number
}
const one: Load = { clients: 64, customers: 1 }
const sixteen: Load = { clients: 256, customers: 16 }
const reservedWei = 1_000n
const chargedWei = 600n
const prices = { promptTokenWei: 20n, completionTokenWei: 60n }
const reservedMs = 900_000

/** Reserves and settles one request, with its receipt, payout and fee. */
type Pay = (customerId: string) => Promise<unknown>

interface Measured {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time for one, µs. */
  readonly databaseUs: number
  readonly ownUs: number
}

/** Reads the processor time that a server and its connections have taken, µs. */
function serverClock(dataDir: string): () => number {
  const file = join(dataDir, 'postgres', 'data', 'postmaster.pid')
  const server = Number(readFileSync(file, 'utf8').split('\n')[0])
  return () => [server, ...descendants(server)].reduce((sum, pid) => sum + cpuSeconds(pid) * 1e6, 0)
}

async function measure(
  customers: readonly string[],
  clients: number,
  pay: Pay,
  secs: number,
  clock: () => number,
): Promise<Measured> {
  const delays: number[] = []
  const [databaseBefore, ownBefore] = [clock(), process.cpuUsage()]
  const began = performance.now()
  const until = began + secs * 1_000
  const client = async (_: unknown, place: number) => {
    const customerId = customers[place % customers.length] ?? ''
    while (performance.now() < until) {
      const at = performance.now()
      await pay(customerId)
      delays.push(performance.now() - at)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const took = performance.now() - began
  const { user, system } = process.cpuUsage(ownBefore)
  const sorted = delays.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
  return {
    perSecond: (delays.length * 1_000) / took,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    databaseUs: (clock() - databaseBefore) / delays.length,
    ownUs: (user + system) / delays.length,
  }
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
    const split = {
      chargedWei,
      shareWei: chargedWei - feeWei,
      feeWei,
      receiptHash: receipt.hash,
      node: nodeId,
      owner: null,
      kind,
    }
    await settleAll(db, [{ id, ...split, held: false, ...ids }], [marked({ ...receipt, billed: true })])
  }

const perCore = ({ databaseUs, ownUs }: Measured) => 1e6 / (databaseUs + ownUs)

function rowOf(name: string, rounds: readonly Measured[]): string[] {
  const middle = (of: (round: Measured) => number) => median(rounds.map(of))
  return [
    name,
    middle(({ perSecond }) => perSecond).toFixed(0),
    middle(({ p50Ms }) => p50Ms).toFixed(1),
    middle(({ p99Ms }) => p99Ms).toFixed(1),
    middle(({ databaseUs }) => databaseUs).toFixed(1),
    middle(({ ownUs }) => ownUs).toFixed(1),
    middle(perCore).toFixed(0),
  ]
}

interface LedgerWay {
  readonly load: Load
  readonly pay: Pay
}

/** Paid requests a second through the ledger, at once on one customer and on sixteen: a transaction each, and in groups. */
export async function benchLedger(options: Options): Promise<string> {
  const log = createLog('silent', () => {})
  const dataDir = join(temporaryFolder(), 'data')
  const embedded = await startEmbedded({ dataDir, log, preferNobody: true })
  try {
    await migrateDatabase(embedded.url)
    const clock = serverClock(dataDir)
    const { db, sql, close } = openDatabase({ url: embedded.url, connectionsMax: 16 })
    const ledger = new Ledger({ macs: testMacs, db, sql, log })
    ledger.start()
    const grouped: Pay = async (customerId) => {
      const held = await ledger.reserve({ id: newId('req'), customerId, amountWei: reservedWei })
      await ledger.settle(held, chargeFor(customerId, chargedWei, { prices }))
    }
    const ways: Readonly<Record<string, LedgerWay>> = {
      'a transaction each': { load: one, pay: alone(db) },
      'in groups': { load: one, pay: grouped },
      'in groups, 16 customers': { load: sixteen, pay: grouped },
    }
    const play = async ({ load, pay }: LedgerWay, secs: number) => {
      const funded = Array.from({ length: load.customers }, () => fundedCustomer({ sql }, 10n ** 30n))
      return measure(await Promise.all(funded), load.clients, pay, secs, clock)
    }
    for (const way of Object.values(ways)) await play(way, options.warmupSecs)
    const rounds = new Map<string, Measured[]>(Object.keys(ways).map((name) => [name, []]))
    for (let round = 0; round < options.rounds; round++) {
      for (const [name, way] of Object.entries(ways)) {
        const seen = await play(way, options.secs)
        rounds.get(name)?.push(seen)
        process.stderr.write(
          `${name} ${round + 1}: ${seen.perSecond.toFixed(0)}/s p50 ${seen.p50Ms.toFixed(1)} ms, ${perCore(seen).toFixed(0)}/s for one core\n`,
        )
      }
    }
    const broken = brokenRules(await readBooks(db))
    const { groups, requests } = ledger.state()
    await ledger.stop()
    await close()
    if (broken.length > 0) throw new RigError(`the books do not balance: ${broken.join('; ')}`)
    const table = markdown(
      ['', 'paid requests/s', 'p50 ms', 'p99 ms', 'PostgreSQL µs each', 'own µs each', 'a second for one core'],
      [...rounds].map(([name, seen]) => rowOf(name, seen)),
    )
    const load = `${options.rounds} rounds of ${options.secs} s after ${options.warmupSecs} s each, ${one.clients} at once on one customer, ${sixteen.clients} on ${sixteen.customers}, fsync on, bench and database share the machine`
    const sizes = `A group had ${(requests / groups).toFixed(0)} of its kind on average. The books balance. Processor time is that of all processes of PostgreSQL, and of the bench with the making of the receipts.`
    return ['## The ledger', circumstances(load), table, sizes].join('\n\n')
  } finally {
    await embedded.stop()
    await stopAll()
  }
}
