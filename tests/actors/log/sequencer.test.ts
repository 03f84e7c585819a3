import { expect, test } from 'bun:test'
import { seededKey } from '../../../src/actors/accounts/seeded-key.ts'
import { createCosigning } from '../../../src/actors/log/cosigning.ts'
import { createSequencer } from '../../../src/actors/log/sequencer.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'
import { severable } from '../../support/gateways/severed-database.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())
const way = await fixture(severable(database.url))

const keys = [seededKey('77'.repeat(32))] as const

/** A log whose events can be read. */
function readable() {
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(...text.trim().split('\n')))
  const events = () => {
    log.flush()
    return lines.map((line) => JSON.parse(line).event)
  }
  return { log, events }
}

test('§31: the log is written an interval after the last turn; that it waits and goes on is logged once each', async () => {
  const clock = new VirtualClock()
  const { log, events } = readable()
  const opened = openDatabase({ url: way.url, connectionsMax: 1 })
  const sequencer = createSequencer({
    db: opened.db,
    log,
    keys,
    intervalMs: 1_000,
    macs: testMacs,
    memory: null,
    clock,
  })
  await sequencer.start()
  expect(clock.waits).toEqual([1_000])
  const turn = async () => {
    await clock.pass(1_000)
    await waitUntil('the next turn is set', () => clock.waits.length === 1)
  }
  await turn()
  await way.sever()
  for (let turns = 0; turns < 3; turns++) await turn()
  expect(events()).toEqual(['log_wait'])
  await way.restore()
  await waitUntil('it goes on', async () => {
    await turn()
    return events().length > 1
  })
  expect(events()).toEqual(['log_wait', 'log_written_again'])
  await sequencer.stop()
  expect(clock.waits).toEqual([])
  await opened.close()
})

test('§31: witnesses are asked an interval after the last round; a round that fails is logged', async () => {
  const clock = new VirtualClock()
  const { log, events } = readable()
  const sequencer = createSequencer({
    db: database.db,
    log,
    keys,
    intervalMs: 1_000,
    macs: testMacs,
    memory: null,
    clock,
  })
  await sequencer.start()
  await sequencer.catchUp({ heads: true })
  await sequencer.stop()
  const rounds: number[] = []
  const witnesses = async () => {
    rounds.push(clock.now())
    throw new Error('not known')
  }
  const cosigning = createCosigning({ db: database.db, log, keys, sequencer, witnesses, everyMs: 5_000, clock })
  cosigning.start()
  for (let round = 1; round <= 2; round++) {
    await waitUntil('a round is set', () => clock.waits.length === 1)
    await clock.pass(5_000)
    await waitUntil('a round', () => rounds.length === round)
  }
  expect(rounds).toEqual([5_000, 10_000])
  await waitUntil('its failure is logged', () => events().length === 2)
  expect(events()).toEqual(['log_not_cosigned', 'log_not_cosigned'])
  await cosigning.stop()
  expect(clock.waits).toEqual([])
})

test('§31: a log that nothing can be added to is shown as stopped after five minutes, until something can be', async () => {
  const { log } = readable()
  let nowMs = Date.now()
  const { db, sql } = openDatabase({ url: database.url, connectionsMax: 2 })
  const options = { db, log, keys, macs: testMacs, intervalMs: 600_000, memory: null } as const
  const sequencer = createSequencer({ ...options, now: () => nowMs })
  try {
    await sequencer.start()
    await sequencer.catchUp()
    expect(sequencer.stopped()).toBe(false)
    // Somebody has written where the next entries come.
    await sql`insert into log_entries (entry_index, kind, hash) select size, 'audit', ${`0x${'cd'.repeat(32)}`} from log_state`
    await sql`insert into payee_statements (node_id, payee, signed_at, signature_ed25519) values ('n', 'p', now(), 's')`
    nowMs += 299_000
    await expect(sequencer.catchUp({ heads: true })).rejects.toThrow()
    expect(sequencer.stopped()).toBe(false)
    nowMs += 1_000
    expect(sequencer.stopped()).toBe(true)
    await sql`delete from log_entries where hash = ${`0x${'cd'.repeat(32)}`}`
    await sequencer.catchUp({ heads: true })
    expect(sequencer.stopped()).toBe(false)
  } finally {
    await sequencer.stop()
    await sql.end()
  }
})
