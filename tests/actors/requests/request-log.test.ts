import { expect, test } from 'bun:test'
import type { ChatRecord } from '../../../src/actors/chat/chat-command.ts'
import type { FinishedRequest } from '../../../src/actors/requests/request-kinds.ts'
import { RequestLog } from '../../../src/actors/requests/request-log.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { newId, type RequestId, ulid } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { dayMs, hourMs } from '../../../src/time.ts'
import { severable } from '../../support/gateways/severed-database.ts'
import { everyRequest } from '../../support/pools/request-rows.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())

const log = createLog('silent', () => {})
const idAt = (ms: number): RequestId => `req_${ulid(ms)}`
const finished = (requestId: string, status = 200, more: Partial<ChatRecord> = {}): FinishedRequest => ({
  requestId,
  customerId: 'cus_one',
  keyId: 'key_one',
  operation: 'chat',
  stream: true,
  tags: null,
  record: {
    model: 'm',
    status,
    code: null,
    latencyMs: 12.4,
    ttftMs: 5.6,
    usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    attempts: 1,
    jobId: null,
    nodeId: 'node_one',
    queueMs: 0,
    loadMs: null,
    sentMs: 1.2,
    cachePercent: 50,
    costWei: 12345678901234567890n,
    receiptHash: `0x${'ab'.repeat(32)}`,
    failedTries: null,
    ...more,
  },
})
const idsAmong = async (ids: readonly string[]) =>
  (
    await database.sql<
      { id: string }[]
    >`select request_id as id from request_records where request_id in ${database.sql([...ids])}`
  ).map(({ id }) => id)
const days = async () =>
  (
    await database.sql<{ name: string }[]>`select relname as name from pg_class
    where relkind = 'r' and relname ~ '^request_groups_p' order by 1`
  ).map(({ name }) => name.slice(-8))
const dayName = (ms: number) => new Date(ms).toISOString().slice(0, 10).replaceAll('-', '')

test('§32: a row is found by its id and comes back as it was, from memory and from the database alike', async () => {
  const options = { ...database, log, days: 7, flushMs: 1 }
  const [writer, reader] = [new RequestLog(options), new RequestLog(options)]
  await writer.start()
  const id = newId('req')
  writer.write(finished(id))
  const here = await writer.find(id)
  expect(here).toMatchObject({
    ttftMs: 6,
    sentMs: 1,
    durationMs: 12,
    cachePercent: 50,
    costWei: '12345678901234567890',
  })
  await writer.stop()
  expect(await reader.find(id)).toEqual(here)
  expect(await reader.find(newId('req'))).toBeNull()
  expect(await reader.find('req_none')).toBeNull()
})

test('§32: days are made ahead, kept for as long as asked, and then dropped whole', async () => {
  let nowMs = Date.now()
  const requests = new RequestLog({ ...database, log, days: 2, flushMs: 1, now: () => nowMs })
  await requests.start()
  expect(await days()).toEqual([0, 1, 2].map((ahead) => dayName(nowMs + ahead * dayMs)))
  const [old, young] = [idAt(nowMs), idAt(nowMs + 2 * dayMs)]
  requests.write(finished(old))
  requests.write(finished(young))
  expect((await requests.page(everyRequest, null, 10)).records.map(({ requestId }) => requestId).slice(0, 1)).toEqual([
    young,
  ])
  await requests.stop()
  nowMs += 3 * dayMs
  const later = new RequestLog({ ...database, log, days: 2, flushMs: 1, now: () => nowMs })
  await later.start()
  expect((await days())[0]).toBe(dayName(nowMs - 2 * dayMs))
  expect(await later.find(old)).toBeNull()
  expect((await later.find(young))?.requestId).toBe(young)
  await later.stop()
})

test('§32: a row of a day that nobody has made yet makes its day', async () => {
  const requests = new RequestLog({ ...database, log, days: 7, flushMs: 1 })
  const ahead = idAt(Date.now() + 30 * dayMs)
  requests.write(finished(ahead))
  await requests.stop()
  const reader = new RequestLog({ ...database, log, days: 7, flushMs: 1 })
  expect((await reader.find(ahead))?.requestId).toBe(ahead)
})

test('§32: requests of many minutes beside one of a day that nobody has made are written, each once', async () => {
  const requests = new RequestLog({ ...database, log, days: 7, flushMs: 1_000 })
  await requests.start()
  const minutes = Array.from({ length: 12 }, (_, at) => idAt(Date.now() - at * 60_000))
  const ids = [...minutes, idAt(Date.now() + 40 * dayMs)]
  for (const id of ids) requests.write(finished(id))
  await requests.stop()
  expect((await idsAmong(ids)).sort()).toEqual(ids.toSorted())
})

test('§32: with 0 days the database keeps none, and the last ones are listed from memory', async () => {
  const requests = new RequestLog({ ...database, log, days: 0, flushMs: 1 })
  await requests.start()
  expect(await days()).not.toContain(dayName(Date.now()))
  const ids = [1, 2, 3, 4].map((ms) => idAt(Date.now() + ms))
  for (const [index, id] of ids.entries()) requests.write(finished(id, index === 0 ? 500 : 200))
  await requests.stop()
  const listed = async (filter: object, after: string | null, limit: number) => {
    const row = after === null ? null : await requests.find(after)
    return (await requests.page({ ...everyRequest, ...filter }, row, limit)).records.map(({ requestId }) => requestId)
  }
  expect(await listed({}, null, 3)).toEqual([3, 2, 1].map((at) => ids[at] as RequestId))
  expect(await listed({}, ids[1] ?? '', 3)).toEqual([ids[0] as RequestId])
  expect(await listed({ status: 500 }, null, 3)).toEqual([ids[0] as RequestId])
  expect(await listed({ model: 'n' }, null, 3)).toEqual([])
  expect(await listed({ ttftMsMin: 7 }, null, 3)).toEqual([])
})

test('§32: what waits for a database that is away is written as it was, each once, however many have come since', async () => {
  const way = await severable(database.url)
  const { db, sql, close } = openDatabase({ url: way.url, connectionsMax: 2 })
  const requests = new RequestLog({ db, sql, log, days: 7, flushMs: 1 })
  await requests.start()
  await way.sever()
  // More than may wait and more than are kept.
  const first = 5_000
  const many = 45_000
  const ids = Array.from({ length: many }, () => newId('req'))
  for (const [at, id] of ids.entries()) requests.write(finished(id, 200, { latencyMs: at }))
  const shown = (id: string | undefined) => requests.recent(id ?? '')?.durationMs ?? null
  // The newest are kept, and the oldest for the database; who stood between found no room.
  expect([0, first, many - 1, many - 9_000].map((at) => shown(ids[at]))).toEqual([0, first, many - 1, many - 9_000])
  expect(shown(ids[26_000])).toBeNull()
  await way.restore()
  await requests.stop()
  const rows = await database.sql<{ id: string; ms: number }[]>`
    select request_id as id, duration_ms as ms from request_records where request_id in ${database.sql(ids.slice(0, first))}
    order by duration_ms`
  expect(rows.map(({ id, ms }) => [ms, id])).toEqual(ids.slice(0, first).map((id, at) => [at, id]))
  expect(await idsAmong(ids.slice(30_000, 32_000))).toEqual([])
  // Places that are free again are used again.
  for (const id of ids.slice(20_000, 40_000)) requests.write(finished(id))
  expect(shown(ids[0])).toBeNull()
  await close()
  await way.close()
})

test('§32: every hour the days ahead are made and those that are over dropped', async () => {
  const clock = new VirtualClock()
  const own = await testDatabase()
  const days = async () => {
    const rows = await own.sql<{ name: string }[]>`
      select c.relname as name from pg_class c join pg_inherits i on i.inhrelid = c.oid
      where i.inhparent = 'request_groups'::regclass order by 1`
    return rows.map(({ name }) => name)
  }
  let atMs = Date.UTC(2031, 0, 1, 12)
  const requests = new RequestLog({ ...own, log, days: 1, flushMs: 50, clock, now: () => atMs })
  await requests.start()
  const first = await days()
  atMs += 2 * dayMs
  await clock.pass(hourMs - 1)
  expect(await days()).toEqual(first)
  await clock.pass(1)
  await waitUntil('the days ahead', async () => (await days()).at(-1) !== first.at(-1))
  expect((await days()).filter((day) => first.includes(day))).toEqual(first.slice(1))
  await requests.stop()
  expect(clock.waits).toEqual([])
  await own.drop()
})
