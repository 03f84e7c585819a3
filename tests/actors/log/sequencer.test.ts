import { afterAll, beforeAll, expect, test } from 'bun:test'
import { seededKey } from '../../../src/actors/accounts/seeded-key.ts'
import { createCosigning } from '../../../src/actors/log/cosigning.ts'
import { createSequencer } from '../../../src/actors/log/sequencer.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'
import { type SeverableDatabase, severable } from '../../support/gateways/severed-database.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { type TestDatabase, testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

let database: TestDatabase
let way: SeverableDatabase
beforeAll(async () => {
  database = await testDatabase()
  way = await severable(database.url)
})
afterAll(async () => {
  await way.close()
  await database.drop()
})

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
