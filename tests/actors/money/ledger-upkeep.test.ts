import { expect, test } from 'bun:test'
import { createUpkeep } from '../../../src/actors/money/ledger-upkeep.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'
import { minuteMs } from '../../../src/time.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())

test('§13: reservations are renewed three times in their life, swept every minute, and the books read and proven', async () => {
  const clock = new VirtualClock()
  const log = createLog('silent', () => {})
  const listed: number[] = []
  const swept: number[] = []
  // Both the renewal and the sweep ask which reservations are this gateway's own.
  const open = () => {
    listed.push(clock.now())
    return []
  }
  const release = async () => {
    swept.push(clock.now())
    return 0
  }
  const upkeep = createUpkeep({ db: database.db, log, staleMs: 9 * minuteMs, open, release, clock })
  upkeep.start()
  expect(upkeep.state()).toEqual({ reservedWei: null, brokenRules: null, stale: 0 })
  await clock.pass(5_000)
  await waitUntil('what is reserved', () => upkeep.state().reservedWei === 0n)
  for (let minute = 1; minute <= 9; minute++) {
    await clock.pass(minute * minuteMs - clock.now())
    await waitUntil('the sweep', () => swept.length === minute)
  }
  expect(swept).toEqual(Array.from({ length: 9 }, (_, at) => (at + 1) * minuteMs))
  const renewed = listed.filter((atMs, at) => listed.indexOf(atMs) !== at)
  expect(renewed).toEqual([3 * minuteMs, 6 * minuteMs, 9 * minuteMs])
  expect(upkeep.state().brokenRules).toBeNull()
  await clock.pass(minuteMs)
  await waitUntil('the proof', () => upkeep.state().brokenRules === 0)
  upkeep.stop()
  await waitUntil('nothing is under way, and nothing is to come', () => clock.waits.length === 0)
})

test('§13: without the database each of its works says so, and goes on', async () => {
  const clock = new VirtualClock()
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(...text.trim().split('\n')))
  const events = () => {
    log.flush()
    return lines.map((line) => JSON.parse(line).event)
  }
  const { db, close } = openDatabase({ url: database.url, connectionsMax: 1 })
  await close()
  const upkeep = createUpkeep({ db, log, staleMs: 15 * minuteMs, open: () => [], release: async () => 0, clock })
  upkeep.start()
  for (let reads = 1; reads <= 3; reads++) {
    await clock.pass(5_000)
    await waitUntil('a failure', () => events().length === reads)
  }
  expect(events()).toEqual(Array.from({ length: 3 }, () => 'reserves_not_read'))
  upkeep.stop()
})
