import { expect, test } from 'bun:test'
import { connect, openDatabase } from '../../src/db/client.ts'
import { applyMigrations, migrations } from '../../src/db/migrate.ts'
import { insertRequestRecords } from '../../src/db/queries/requests/request-groups.ts'
import {
  getRequestRecord,
  keepRequestRecords,
  type RequestFilter,
  type RequestOutcome,
  type RequestPlace,
  type RequestRecord,
} from '../../src/db/queries/requests/request-records.ts'
import { requestPage } from '../../src/db/queries/requests/request-search.ts'
import { ulid } from '../../src/ids.ts'
import { dayMs, minuteMs } from '../../src/time.ts'
import { everyRequest, insertRequests, ofRecords, requestColumns } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'
import { emptyDatabase, testDatabase } from '../support/run/postgres.ts'

const recordAt = (ms: number, more: Partial<RequestRecord> = {}): RequestRecord => ({
  requestId: `req_${ulid(ms)}`,
  at: new Date(ms),
  customerId: 'cus_a',
  keyId: null,
  operation: 'chat',
  stream: false,
  model: 'm',
  nodeId: 'node_a',
  tries: 1,
  queueMs: 0,
  loadMs: null,
  sentMs: null,
  ttftMs: null,
  durationMs: 1,
  promptTokens: null,
  completionTokens: null,
  cachePercent: null,
  status: 200,
  code: null,
  costWei: null,
  receiptHash: null,
  failedTries: null,
  tags: null,
  ...more,
})

/** A moment in the middle of a day, so that what is around it is in one day. */
const noon = Math.floor(Date.now() / dayMs) * dayMs + dayMs / 2

const database = await fixture(testDatabase())
await keepRequestRecords(database.db, new Date(noon - 3 * dayMs), new Date(noon + dayMs), new Date(noon - 3 * dayMs))

/** Every page to the end. Each must come further back than the one before. */
async function allOf(filter: RequestFilter, limit: number) {
  const found: RequestRecord[] = []
  let after: RequestPlace | null = null
  let pages = 0
  for (;;) {
    const { records, searchedTo } = await requestPage(database.db, filter, after, limit)
    pages++
    found.push(...records)
    const next: RequestPlace | null = searchedTo ?? (records.length === limit ? (records.at(-1) ?? null) : null)
    if (next === null) return { found, pages }
    if (after !== null) expect([next.at.getTime(), next.requestId] < [after.at.getTime(), after.requestId]).toBe(true)
    after = next
  }
}

/** The same numbers in every run. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}
const newestFirst = (a: RequestRecord, b: RequestRecord) =>
  b.at.getTime() - a.at.getTime() || (a.requestId < b.requestId ? 1 : -1)

/** What a person would call it. */
const outcomes = ({ status, code }: RequestRecord): readonly RequestOutcome[] => [
  ...(code !== null && status !== 499 ? (['failed'] as const) : []),
  ...(status >= 400 && status < 499 ? (['4xx'] as const) : []),
  ...(status >= 500 ? (['5xx'] as const) : []),
]

test('§32: any filter, range and page size shows what fits and nothing else, however the requests lie in their groups', async () => {
  const random = randomOf(32)
  const pick = <T>(of: readonly T[]) => of[random(of.length)] as T
  const records: RequestRecord[] = []
  // Around midnight and over minutes, many in the same millisecond; some ended long after they began.
  for (let group = 0; group < 60; group++) {
    const writtenMs = noon - dayMs / 2 + (group - 30) * 7_000
    const rows = Array.from({ length: 1 + random(40) }, () =>
      recordAt(writtenMs - (random(4) === 0 ? random(3 * minuteMs) : random(20)), {
        customerId: pick(['cus_a', 'cus_b', 'cus_c']),
        keyId: pick([null, 'key_a', 'key_b']),
        model: pick([null, 'm', 'n', 'o']),
        nodeId: pick([null, 'node_a', 'node_b']),
        status: pick([200, 200, 200, 502, 429, 499]),
        code: pick([null, null, 'upstream_error', 'rate_limited']),
        ttftMs: pick([null, random(1_000)]),
        tags: pick([null, null, 'a', 'a,b', 'ab', 'b,c:d/e']),
      }),
    )
    records.push(...rows)
    await insertRequestRecords(database, rows, ofRecords)
  }
  records.sort(newestFirst)
  const times = records.map(({ at }) => at)
  for (let turn = 0; turn < 60; turn++) {
    const filter: RequestFilter = {
      from: pick([null, null, pick(times)]),
      to: pick([null, null, pick(times)]),
      model: pick([null, null, 'n', 'none']),
      nodeId: pick([null, null, 'node_b']),
      customerId: pick([null, null, 'cus_b']),
      keyId: pick([null, null, 'key_b']),
      status: pick([null, null, 200, 502]),
      code: pick([null, null, 'rate_limited']),
      ttftMsMin: pick([null, null, 500]),
      outcome: pick([null, null, 'failed', '4xx', '5xx']),
      tag: pick([null, null, 'a', 'b', 'none']),
    }
    const fits = (value: unknown, wanted: unknown) => wanted === null || value === wanted
    const expected = records.filter(
      (row) =>
        (filter.from === null || row.at >= filter.from) &&
        (filter.to === null || row.at < filter.to) &&
        fits(row.model, filter.model) &&
        fits(row.nodeId, filter.nodeId) &&
        fits(row.customerId, filter.customerId) &&
        fits(row.keyId, filter.keyId) &&
        fits(row.status, filter.status) &&
        fits(row.code, filter.code) &&
        (filter.tag === null || (row.tags ?? '').split(',').includes(filter.tag)) &&
        (filter.ttftMsMin === null || (row.ttftMs ?? -1) >= filter.ttftMsMin) &&
        (filter.outcome === null || outcomes(row).includes(filter.outcome)),
    )
    const { found } = await allOf(filter, pick([7, 100, 1_000]))
    expect(found).toEqual(expected)
  }
  for (const record of records.slice(0, 50)) expect(await getRequestRecord(database.db, record)).toEqual(record)
})

test('§32: a search for what filters have in common ends its page early, says where it goes on, and misses nothing', async () => {
  const first = noon - 2 * dayMs
  const rows = 100_000
  // Both of a pair are in every group, and together in two requests far from each other.
  await insertRequests(
    database.sql,
    `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${first / 1_000}) + i * interval '1 ms', 'cus_a', null::text, 'chat', true,
      'rare-' || case when i in (100, 90000) then 1 else i % 2 end, 'rare_' || case when i in (100, 90000) then 0 else i % 2 end,
      1, 0, null::int, 2, 3, 4, 5, 6, null::int, 200, null::text, null::text, null::text, null::text
    from generate_series(1, ${rows}) i`,
  )
  const filter = { ...everyRequest, model: 'rare-1', nodeId: 'rare_0' }
  const { records, searchedTo } = await requestPage(database.db, filter, null, 10)
  expect(records.length).toBeLessThan(2)
  expect(searchedTo).not.toBeNull()
  const { found, pages } = await allOf(filter, 10)
  expect(found.map(({ requestId }) => Number(requestId.slice(4)))).toEqual([90_000, 100])
  expect(pages).toBeGreaterThan(2)
  // One name alone leaves every other group out: one page.
  expect(await requestPage(database.db, { ...everyRequest, model: 'rare-9' }, null, 10)).toEqual({
    records: [],
    searchedTo: null,
  })
})

test('§32: what lies far apart comes in shorter pages than were asked for, and all of it', async () => {
  const first = noon - dayMs
  await insertRequests(
    database.sql,
    `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${first / 1_000}) + i * interval '10 ms', 'cus_a', null::text, 'chat', true,
      'apart-' || i % 30, 'node_a', 1, 0, null::int, 2, 3, 4, 5, 6, null::int, 200, null::text, null::text, null::text, null::text
    from generate_series(1, 30000) i`,
  )
  const filter = { ...everyRequest, model: 'apart-7' }
  const { records, searchedTo } = await requestPage(database.db, filter, null, 1_000)
  expect(records).toHaveLength(400)
  expect(searchedTo).toMatchObject({ requestId: records.at(-1)?.requestId })
  const { found } = await allOf(filter, 1_000)
  expect(found.map(({ requestId }) => Number(requestId.slice(4)))).toEqual(
    Array.from({ length: 1_000 }, (_, at) => (999 - at) * 30 + 7),
  )
})

test('§32: a minute of which every group holds the whole is still paged through', async () => {
  const minute = noon + 60 * minuteMs
  const [groups, rows] = [160, 250]
  for (let group = 0; group < groups; group++) {
    const records = Array.from({ length: rows }, (_, at) =>
      recordAt(minute + Math.floor((at * groups + group) * (minuteMs / (groups * rows))), {
        nodeId: at === 3 ? 'node_wide' : 'node_a',
        model: 'wide',
      }),
    )
    await insertRequestRecords(database, records, ofRecords)
  }
  const { found } = await allOf({ ...everyRequest, model: 'wide', nodeId: 'node_wide' }, 50)
  expect(found).toHaveLength(groups)
  expect(new Set(found.map(({ requestId }) => requestId)).size).toBe(groups)
})

test('§32: what any filter asks for is found beyond the requests that are looked through first', async () => {
  const first = noon - 2 * dayMs - 60 * minuteMs
  const sought = recordAt(first, {
    customerId: 'cus_beyond',
    keyId: 'key_beyond',
    model: 'beyond',
    nodeId: 'node_beyond',
    status: 507,
    code: 'beyond',
    ttftMs: 3_000_000,
  })
  // One among others of its group, and many newer ones.
  const others = Array.from({ length: 3_000 }, (_, at) => recordAt(first + Math.floor(at / 250) * 1_000 + (at % 250)))
  await insertRequestRecords(database, [sought, ...others], ofRecords)
  const wanted: readonly Partial<RequestFilter>[] = [
    { customerId: 'cus_beyond' },
    { keyId: 'key_beyond' },
    { model: 'beyond' },
    { nodeId: 'node_beyond' },
    { status: 507 },
    { code: 'beyond' },
    { outcome: 'failed' },
    { outcome: '5xx' },
    { ttftMsMin: 3_000_000 },
  ]
  // The tests before have failed requests of their own, all of them newer.
  const range = { to: new Date(first + 13_000) }
  for (const one of [...wanted, Object.assign({}, ...wanted)]) {
    const { found } = await allOf({ ...everyRequest, ...range, ...one }, 10)
    expect([one, found]).toEqual([one, [sought]])
  }
})

test('§32: a search that ends its page among requests of one millisecond goes on with the rest of them', async () => {
  const first = noon + 120 * minuteMs
  // Seven groups to a millisecond: whichever number of groups a page looks through, most such pages end between them.
  const [groups, groupsOfMs, rows] = [160, 7, 250]
  const fit: RequestRecord[] = []
  for (let group = 0; group < groups; group++) {
    const at = first + Math.floor(group / groupsOfMs)
    const both = recordAt(at, { model: 'tied', nodeId: 'node_tied' })
    fit.push(both)
    await insertRequestRecords(
      database,
      [
        both,
        ...Array.from({ length: rows - 1 }, (_, place) =>
          recordAt(at, place % 2 === 0 ? { model: 'tied' } : { nodeId: 'node_tied' }),
        ),
      ],
      ofRecords,
    )
  }
  const { found, pages } = await allOf({ ...everyRequest, model: 'tied', nodeId: 'node_tied' }, groups + 1)
  expect(found.map(({ requestId }) => requestId)).toEqual(fit.toSorted(newestFirst).map(({ requestId }) => requestId))
  expect(pages).toBeGreaterThan(1)
})

test('§32: what a version before has written row by row is there after the migration', async () => {
  const old = await emptyDatabase()
  const sql = connect(old.url, { max: 1 })
  const { db, close } = openDatabase({ url: old.url, connectionsMax: 1 })
  try {
    const all = migrations()
    const before = all.findIndex(({ statements }) =>
      statements.some((text) => text.includes('CREATE TABLE request_groups')),
    )
    await sql.begin((transaction) => applyMigrations(transaction, all.slice(0, before)))
    const day = new Date(noon)
    await sql`select request_records_keep(${new Date(noon - dayMs).toISOString()}::timestamptz, ${day.toISOString()}::timestamptz,
      ${new Date(noon - dayMs).toISOString()}::timestamptz)`
    const tried = JSON.stringify([{ node_id: 'node_b', code: 'upstream_error', started_ms: 1, duration_ms: 2 }])
    await sql.unsafe(`insert into request_records (${requestColumns})
      select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${noon / 1_000}) - i * interval '20 seconds', 'cus_' || i % 3, null, 'chat', true,
        'm', case when i % 2 = 0 then 'node_' || i % 4 end, 1, 0, null, 2, i, 4000, 10, 20, null,
        case when i % 10 = 0 then 502 else 200 end, case when i % 10 = 0 then 'upstream_error' end, 2::numeric ^ 200, null,
        case when i % 10 = 0 then '${tried}'::jsonb end
      from generate_series(1, 4000) i`)
    const rowsOf = async () => [
      ...(await sql.unsafe(`select ${requestColumns} from request_records order by at desc, request_id desc`)),
    ]
    const written = await rowsOf()
    expect(written).toHaveLength(4_000)
    await sql.begin((transaction) => applyMigrations(transaction, all))
    expect(await rowsOf()).toEqual(written)
    const { records } = await requestPage(
      db,
      { ...everyRequest, status: 502, nodeId: 'node_2', ttftMsMin: 3_000 },
      null,
      1_000,
    )
    expect(records.map(({ ttftMs }) => ttftMs)).toEqual(
      Array.from({ length: 4_000 }, (_, at) => at + 1).filter((i) => i % 10 === 0 && i % 4 === 2 && i >= 3_000),
    )
  } finally {
    await close()
    await sql.end()
    await old.drop()
  }
})
