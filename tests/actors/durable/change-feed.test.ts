import { expect, test } from 'bun:test'
import { ChangeFeed } from '../../../src/actors/durable/change-feed.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'
import { severable } from '../../support/gateways/severed-database.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())
const way = await fixture(severable(database.url))

test('§26: versions are read every 2 s; a database that is away is logged once, and once that it is back', async () => {
  const clock = new VirtualClock()
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(...text.trim().split('\n')))
  const events = () => {
    log.flush()
    return lines.map((line) => JSON.parse(line).event)
  }
  const opened = openDatabase({ url: way.url, connectionsMax: 1 })
  const feed = new ChangeFeed({ ...opened, log, clock, now: () => 1_000 + clock.now() })
  expect(feed.confirmedAtMs()).toBe(0)
  await feed.start()
  expect(feed.confirmedAtMs()).toBe(1_000)
  await waitUntil('the next poll is set', () => clock.waits.includes(2_000))
  await clock.pass(1_999)
  expect(feed.confirmedAtMs()).toBe(1_000)
  await clock.pass(1)
  await waitUntil('a poll', () => feed.confirmedAtMs() === 3_000)
  await way.sever()
  for (let polls = 0; polls < 3; polls++) {
    await waitUntil('a poll is set', () => clock.waits.length > 0)
    await clock.pass(4_000)
  }
  expect(events()).toEqual(['change_feed_lost'])
  expect(feed.confirmedAtMs()).toBe(3_000)
  await way.restore()
  await waitUntil('it is back', async () => {
    await clock.pass(2_000)
    return events().length > 1
  })
  expect(events()).toEqual(['change_feed_lost', 'change_feed_back'])
  expect(feed.confirmedAtMs()).toBeGreaterThan(3_000)
  await feed.stop()
  await waitUntil('the poll under way has ended, and there is no other', () => clock.waits.length === 0)
  await opened.close()
})

test('§26: a change is heard of by its notice, long before the next poll', async () => {
  const clock = new VirtualClock()
  const log = createLog('silent', () => {})
  const opened = openDatabase({ url: database.url, connectionsMax: 2 })
  const feed = new ChangeFeed({ ...opened, log, clock })
  let changes = 0
  await feed.start()
  feed.subscribe('nodes', () => void changes++)
  await database.sql`update directory_versions set version = version + 1 where topic = 'nodes'`
  await database.sql`select pg_notify('penstock_changes', '')`
  await waitUntil('the change', async () => {
    await clock.pass(1)
    return changes > 0
  })
  expect(changes).toBe(1)
  await feed.stop()
  await opened.close()
})
