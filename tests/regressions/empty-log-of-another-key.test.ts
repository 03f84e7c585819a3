import { expect, test } from 'bun:test'
import { seededKey } from '../../src/actors/accounts/seeded-key.ts'
import { firstOrigin } from '../../src/actors/log/log-names.ts'
import { createSequencer } from '../../src/actors/log/sequencer.ts'
import { createLog } from '../../src/log.ts'
import { emptyRoot } from '../../src/protocol/log/merkle-log.ts'
import { receiptOf } from '../support/money/forging.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { keepLog } from '../support/money/kept-log.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { scoped } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: after a rotation of the log's key, an attacker with the database alone could have the gateway drop its log and sign a new one, and nothing was
 * reported: no `log_forked`, no alert.
 * Cause: an empty log needed the name of any key of SVC_LOG_KEY, and another name than the one that was seen passed for a fork that an operator had named.
 * Fix: a gateway that has seen a checkpoint that one of its keys has signed begins no log, and takes none that another gateway began for a named fork of it.
 */
const [before, newest] = [seededKey('77'.repeat(32)), seededKey('78'.repeat(32))]
type Keys = Parameters<typeof createSequencer>[0]['keys']

/** A database whose log the key before has begun. */
async function loggedDatabase() {
  const database = await scoped(testDatabase())
  const { db, sql } = database
  const events: string[] = []
  const log = createLog('info', (text) =>
    events.push(
      ...text
        .trim()
        .split('\n')
        .map((line) => String(JSON.parse(line).event)),
    ),
  )
  let kept: string | null = null
  const memory = {
    read: () => kept,
    write: (note: string) => {
      kept = note
    },
  }
  /** A gateway of these keys, with the data folder, or with none. */
  const sequencerBy = (keys: Keys, folder: typeof memory | null = memory) =>
    createSequencer({ db, log, keys, macs: testMacs, intervalMs: 600_000, memory: folder })
  const first = sequencerBy([before])
  await first.start()
  await first.stop()
  return Object.assign(database, {
    sequencerBy,
    seen: kept ?? '',
    kept: () => kept,
    told: (event: string) => {
      log.flush()
      return events.filter((one) => one === event).length
    },
    origins: async () =>
      (await sql<{ origin: string }[]>`select distinct origin from log_checkpoints`).map(({ origin }) => origin),
    size: async () => Number((await sql`select size from log_state`)[0]?.size),
    /** As an attacker with the database does, who knows the name of the newest key. */
    emptyLog: async () => {
      for (const table of ['log_entries', 'log_receipts', 'log_tiles', 'log_checkpoints'])
        await sql.unsafe(`delete from ${table}`)
      await sql`update log_state set origin = ${firstOrigin([newest])}, size = 0, root = ${Buffer.from(emptyRoot())},
        receipts_to = 0, ledger_to = 0`
    },
  })
}

test('§36: a gateway whose key was rotated begins no empty log under the name of its newest key', async () => {
  await using database = await loggedDatabase()
  const { sequencerBy, seen, told, origins, emptyLog } = database
  const rotated = sequencerBy([newest, before])
  await rotated.start()
  expect([rotated.origin(), rotated.fork()]).toEqual([firstOrigin([before]), null])
  await emptyLog()
  await rotated.catchUp({ heads: true })
  expect([await origins(), rotated.fork()]).toEqual([[], seen])
  await rotated.stop()
  // Nor does the next start.
  const next = sequencerBy([newest, before])
  await next.start()
  await next.catchUp({ heads: true })
  expect([await origins(), next.fork()]).toEqual([[], seen])
  await next.stop()
  expect(told('log_forked')).toBe(2)
})

test('§36: a gateway that gets another database with another key begins a log in it', async () => {
  await using database = await loggedDatabase()
  const { sequencerBy, origins, emptyLog } = database
  await emptyLog()
  const alone = sequencerBy([newest])
  await alone.start()
  await alone.catchUp({ heads: true })
  expect([alone.fork(), await origins()]).toEqual([null, [firstOrigin([newest])]])
  await alone.stop()
})

test('§36: a gateway does not follow an empty log that another gateway, which has seen none, began under the name of the newest key', async () => {
  await using database = await loggedDatabase()
  const { sequencerBy, seen, kept, told, size, emptyLog } = database
  const rotated = sequencerBy([newest, before])
  await rotated.start()
  await emptyLog()
  const fresh = sequencerBy([newest, before], null)
  await fresh.start()
  await fresh.catchUp({ heads: true })
  const begun = await size()
  expect([fresh.fork(), begun > 0]).toEqual([null, true])
  // The second time it has the fork, and the other log is signed.
  for (let looks = 0; looks < 2; looks++) {
    await rotated.catchUp({ heads: true })
    expect([rotated.fork(), kept(), await size()]).toEqual([seen, seen, begun])
  }
  expect(told('log_forked')).toBe(1)
  await rotated.stop()
  await fresh.stop()
})

/** As where the settings of a gateway name another one's database. */
async function writeForeign({ sequencerBy, emptyLog }: Awaited<ReturnType<typeof loggedDatabase>>) {
  await emptyLog()
  const foreign = sequencerBy([newest], null)
  await foreign.start()
  await foreign.catchUp({ heads: true })
  await foreign.stop()
}

test('§36: a gateway that found a log of a key that it does not know goes on when its own log is back', async () => {
  await using database = await loggedDatabase()
  const { sql, sequencerBy, told } = database
  const own = sequencerBy([before])
  await own.start()
  const putBack = await keepLog(sql)
  await writeForeign(database)
  await own.catchUp({ heads: true })
  expect([own.fork() === null, told('log_key_unknown')]).toEqual([false, 1])
  await putBack()
  await own.catchUp({ heads: true })
  expect(own.fork()).toBe(null)
  await own.stop()
})

test('§36: a gateway that found a log of a key that it does not know takes no older state of its own log afterwards', async () => {
  await using database = await loggedDatabase()
  const { sql, sequencerBy, told, kept, size } = database
  const own = sequencerBy([before])
  await own.start()
  const [putBack, older] = [await keepLog(sql), await size()]
  await insertReceipts(database, [receiptOf()])
  await own.catchUp()
  const newestNote = kept()
  expect(await size()).toBeGreaterThan(older)
  await writeForeign(database)
  await own.catchUp({ heads: true })
  await putBack()
  for (let looks = 0; looks < 2; looks++) {
    await own.catchUp({ heads: true })
    expect([own.fork(), kept(), await size()]).toEqual([newestNote, newestNote, older])
  }
  expect([told('log_key_unknown'), told('log_forked')]).toEqual([1, 1])
  await own.stop()
})
