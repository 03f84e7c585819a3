import { expect, test } from 'bun:test'
import { seededKey } from '../../src/actors/accounts/seeded-key.ts'
import { firstOrigin } from '../../src/actors/log/log-names.ts'
import { createSequencer } from '../../src/actors/log/sequencer.ts'
import { createLog } from '../../src/log.ts'
import { emptyRoot } from '../../src/protocol/log/merkle-log.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: after a rotation of the log's key, an attacker with the database alone could have the gateway drop its log and sign a new one, and nothing was
 * reported: no `log_forked`, no alert.
 * Cause: an empty log needed the name of any key of SVC_LOG_KEY, and another name than the one that was seen passed for a fork that an operator had named.
 * Fix: a gateway that has seen a checkpoint that one of its keys has signed begins no log.
 */
const [before, newest] = [seededKey('77'.repeat(32)), seededKey('78'.repeat(32))]
const { db, sql } = await fixture(testDatabase())
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
const sequencerBy = (keys: Parameters<typeof createSequencer>[0]['keys']) =>
  createSequencer({ db, log, keys, macs: testMacs, intervalMs: 600_000, memory })
const checkpoints = () => sql<{ origin: string }[]>`select distinct origin from log_checkpoints`

test('§36: a gateway whose key was rotated begins no empty log under the name of its newest key', async () => {
  const first = sequencerBy([before])
  await first.start()
  await first.stop()
  const rotated = sequencerBy([newest, before])
  await rotated.start()
  expect([rotated.origin(), rotated.fork()]).toEqual([firstOrigin([before]), null])
  const seen = kept
  for (const table of ['log_entries', 'log_receipts', 'log_tiles', 'log_checkpoints'])
    await sql.unsafe(`delete from ${table}`)
  await sql`update log_state set origin = ${firstOrigin([newest])}, size = 0, root = ${Buffer.from(emptyRoot())}, receipts_to = 0,
    ledger_to = 0`
  await rotated.catchUp({ heads: true })
  expect(await checkpoints()).toHaveLength(0)
  expect(rotated.fork()).toBe(seen)
  await rotated.stop()
  // Nor does the next start.
  const next = sequencerBy([newest, before])
  await next.start()
  await next.catchUp({ heads: true })
  expect([await checkpoints(), next.fork()].flat()).toEqual([seen])
  await next.stop()
  log.flush()
  expect(events.filter((event) => event === 'log_forked')).toHaveLength(2)
})

test('§36: a gateway that gets another database with another key begins a log in it', async () => {
  const alone = sequencerBy([newest])
  await alone.start()
  await alone.catchUp({ heads: true })
  expect(alone.fork()).toBe(null)
  expect((await checkpoints()).map(({ origin }) => origin)).toEqual([firstOrigin([newest])])
  await alone.stop()
})
