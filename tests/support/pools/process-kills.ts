import { expect } from 'bun:test'
import { checkChains } from '../../../src/actors/audit/audit-check.ts'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { createLog } from '../../../src/log.ts'
import { waitFor } from '../gateways/gateway.ts'
import { isAlive } from '../gateways/npm-start.ts'
import { expectBooksBalance } from '../money/ledger.ts'
import { testMacs } from '../money/receipt-macs.ts'
import {
  creditWei,
  isWhole,
  longStream,
  models,
  type ProcessPool,
  processLoad,
  processOf,
  untilAllAnswer,
} from './process-pool.ts'

const streamsPerKill = 10

export interface Killed {
  readonly answered: number
  readonly cut: number
  readonly spared: number
}

/**
 * `kill -9` of one process under paid load: its own streams end, those of the others come whole; another process takes
 * its place, and whatever a client saw whole is on the books once.
 */
export async function killOne(pool: ProcessPool, round: number): Promise<Killed> {
  const { server, gateway } = pool
  const load = processLoad(pool)
  const streams = Array.from({ length: streamsPerKill }, () => longStream(pool))
  await Promise.all(streams.map(({ begun }) => begun))
  const pids = server.pids
  const victim = pids[round % pids.length] ?? 0
  const owned = streams.map((stream) => ({ ...stream, own: processOf(pids, stream.socket, gateway) }))
  expect(owned.filter(({ own }) => own === null)).toEqual([])
  process.kill(victim, 'SIGKILL')
  const ends = await Promise.all(owned.map(async ({ own, ended }) => ({ own, whole: isWhole(await ended) })))
  expect(ends.filter(({ own, whole }) => whole !== (own !== victim))).toEqual([])
  await waitFor('another process', () => server.pids.length === pids.length && !server.pids.includes(victim), 60_000)
  await untilAllAnswer(pool)
  const answers = await load.stop()
  expect(isAlive(victim)).toBe(false)
  const paid = answers.flatMap(({ model, receipt }) => (model === models.paid && receipt !== null ? [receipt] : []))
  expect(paid.length).toBeGreaterThan(0)
  await expectOnTheBooks(pool, paid)
  const cut = ends.filter(({ whole }) => !whole).length
  return { answered: answers.filter(({ whole }) => whole).length, cut, spared: ends.length - cut }
}

async function expectOnTheBooks({ gateway, payer }: ProcessPool, receipts: readonly string[]): Promise<void> {
  const { sql, db } = gateway.database
  const rows = await sql<{ hash: string; wei: string }[]>`
    select receipt_hash hash, amount_wei::text wei from ledger_entries
    where kind = 'debit' and customer_id = ${payer.customerId}`
  const hashes = new Set(rows.map(({ hash }) => hash))
  expect(hashes.size).toBe(rows.length)
  expect(hashes.size).toBeGreaterThan(0)
  // Calls of one's own node cost nothing: their receipts wait in memory, as docs/operations/run.md says, and no money with them.
  expect(receipts.filter((hash) => !hashes.has(hash))).toEqual([])
  const [account] = await sql<{ balance: string }[]>`
    select balance_wei::text balance from customers where customer_id = ${payer.customerId}`
  expect(BigInt(account?.balance ?? -1)).toBe(creditWei - rows.reduce((sum, { wei }) => sum + BigInt(wei), 0n))
  await expectBooksBalance(db)
}

/** What the dead have set aside is given back once nobody has renewed it for its time; audit chains hold. */
export async function expectRecovered({ gateway, payer }: ProcessPool): Promise<void> {
  const { sql, db } = gateway.database
  await sql`update reservations set expires_at = now() - interval '1 s' where status = 'open'`
  const ledger = new Ledger({ macs: testMacs, db, sql, log: createLog('silent', () => {}) })
  while ((await ledger.sweep()) > 0);
  const [row] = await sql<{ reserved: string }[]>`
    select reserved_wei::text reserved from customers where customer_id = ${payer.customerId}`
  expect(row?.reserved).toBe('0')
  await expectBooksBalance(db)
  expect((await checkChains(db, ['test-audit-key'])).faults).toEqual([])
}
