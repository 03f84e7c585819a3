import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Sql } from 'postgres'
import { createSequencer } from '../../src/actors/log/sequencer.ts'
import { readSubtrees } from '../../src/actors/log/tree.ts'
import { type Database, openDatabase } from '../../src/db/client.ts'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrateDatabase } from '../../src/db/migrate.ts'
import { createLog } from '../../src/log.ts'
import { type Checkpoint, parseCheckpoint } from '../../src/protocol/log/checkpoint.ts'
import { logLeaf } from '../../src/protocol/log/log-entry.ts'
import { consistencyProof, isConsistent, rootAt } from '../../src/protocol/log/merkle-log.ts'
import { parseNote } from '../../src/protocol/log/note.ts'
import { receiptText, textHash } from '../../src/protocol/receipts/receipt.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { receiptFacts } from '../support/money/receipt-facts.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { type PaidPool, paidRound, startPaidPool } from '../support/pools/paid-storm.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** Fewer for a look (LOG_KILLS). */
const gatewayKills = Number(process.env.LOG_KILLS ?? 20)
const databaseKills = 5
const receiptsPerKill = 400
/** As many as go by COPY, which a kill may meet anywhere. */
const groupRows = 40

const known = (note: string): Checkpoint => {
  const checkpoint = parseCheckpoint(parseNote(note)?.text ?? '')
  if (checkpoint === null) throw new Error('no checkpoint')
  return checkpoint
}

/** Every receipt once, entries without a gap, and every checkpoint that ever was leads to the next. */
async function expectWholeLog(db: Database, sql: Sql, seen: readonly Checkpoint[]): Promise<void> {
  const [counts] = await sql<{ receipts: number; logged: number; entries: number; last: number }[]>`
    select (select count(*)::int from receipts) as receipts,
      (select count(distinct hash)::int from log_contents where kind = 'receipt') as logged,
      (select count(*)::int from log_contents) as entries, (select max(entry_index)::int from log_contents) as last`
  const [state] = await sql<{ size: number }[]>`select size::int as size from log_state`
  expect(counts?.logged).toBe(counts?.receipts ?? -1)
  expect([counts?.entries, (counts?.last ?? 0) + 1]).toEqual([state?.size, state?.size])
  const absent = await sql`select receipt_hash from receipts r
    where not exists (select 1 from log_contents e where e.hash = r.receipt_hash and e.kind = 'receipt')`
  expect(absent).toHaveLength(0)
  const rows = await sql<{ note: string }[]>`select note from log_checkpoints order by size`
  const all = [...rows.map(({ note }) => known(note)), ...seen].sort((a, b) => a.size - b.size)
  const read = readSubtrees(db)
  for (const [at, later] of all.entries()) {
    const earlier = all[at - 1]
    if (earlier !== undefined)
      expect(isConsistent(earlier, later, await consistencyProof(earlier.size, later.size, read))).toBe(true)
  }
  const newest = all.at(-1)
  expect(newest?.size).toBe(state?.size ?? -1)
  expect(newest?.root).toEqual(await rootAt(newest?.size ?? 0, read))
  // The tiles are those of the entries.
  const entries = await sql<
    { kind: 'receipt'; hash: string }[]
  >`select kind, hash from log_contents order by entry_index`
  const leaves = entries.map(logLeaf)
  const [first] = await read([{ level: 0, index: 0 }])
  expect(first).toEqual(leaves[0] as Uint8Array)
}

let pool: PaidPool
beforeAll(async () => {
  pool = await startPaidPool()
}, 60_000)
afterAll(() => pool.stop())

test(`§31: ${gatewayKills} times kill -9 of the gateway under load: every receipt once in the log, all checkpoints consistent`, async () => {
  const { database, url } = pool.gateway
  const seen: Checkpoint[] = []
  for (let round = 1; round <= gatewayKills; round++) {
    await paidRound(pool, round)
    // A gateway that lives for less than two intervals writes nothing into the log: the first one lives for longer.
    await waitUntil('a checkpoint', async () => {
      const response = await fetch(`${url}/v1/public/log/checkpoint`)
      if (response.status === 200) seen.push(known(await response.text()))
      return response.status === 200
    })
  }
  expect(seen).toHaveLength(gatewayKills)
  const caughtUp = async () => {
    const [row] = await database.sql<{ missing: number }[]>`select count(*)::int as missing from receipts r
      where not exists (select 1 from log_contents e where e.hash = r.receipt_hash)`
    return row?.missing === 0
  }
  await waitUntil('the log', caughtUp)
  await expectWholeLog(database.db, database.sql, seen)
}, 1_800_000)

/** The server and all of its processes at once. */
async function killServer(sql: Sql): Promise<void> {
  const [file] = await sql<{ text: string }[]>`select pg_read_file('postmaster.pid') as text`
  const others = await sql<{ pid: number }[]>`select pid from pg_stat_activity`
  for (const pid of [Number.parseInt(file?.text ?? '', 10), ...others.map((each) => each.pid)]) {
    process.kill(pid, 'SIGKILL')
  }
}

let made = 0
const receipt = () => {
  const text = receiptText(receiptFacts({ requestId: `req_${made++}`, promptTokens: 1, completionTokens: 1 }))
  return { hash: textHash(text), text, customerId: 'cus_a' }
}

test(`§31: ${databaseKills} times kill -9 of PostgreSQL while receipts come: the same`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'log-kills-'))
  const log = createLog('silent', () => {})
  const embedded = await startEmbedded({ dataDir: join(folder, 'data'), log, preferNobody: true })
  try {
    await migrateDatabase(embedded.url)
    const { db, sql, close } = openDatabase({ url: embedded.url, connectionsMax: 4 })
    const keys = [signingKey(new Uint8Array(32).fill(7))] as const
    const sequencer = createSequencer({ db, log, keys, intervalMs: 50, macs: testMacs, memory: null })
    await sequencer.start()
    const seen: Checkpoint[] = []
    const latest = async () => {
      // The connection may be one that was killed.
      const [row] = await sql<{ note: string }[]>`select note from log_checkpoints order by size desc limit 1`.catch(
        () => [],
      )
      if (row !== undefined) seen.push(known(row.note))
    }
    for (let kill = 0; kill < databaseKills; kill++) {
      let running = true
      const writing = (async () => {
        for (let count = 0; running || count < receiptsPerKill; count += groupRows) {
          const rows = Array.from({ length: groupRows }, receipt)
          // One that was lost with the database is written again: the row is the same.
          for (let done = false; !done; )
            done = await insertReceipts({ sql }, rows).then(
              () => true,
              () => Bun.sleep(20).then(() => false),
            )
        }
      })()
      await waitUntil('a checkpoint that grows', async () => {
        const before = seen.at(-1)?.size ?? 0
        await latest()
        return (seen.at(-1)?.size ?? 0) > before
      })
      await killServer(sql)
      running = false
      await writing
    }
    await waitUntil('the database', () =>
      sql`select 1`.then(
        () => true,
        () => false,
      ),
    )
    await sequencer.catchUp()
    expect(sequencer.fork()).toBeNull()
    await expectWholeLog(db, sql, seen)
    await sequencer.stop()
    await close()
  } finally {
    await embedded.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})
