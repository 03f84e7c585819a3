import { expect, test } from 'bun:test'
import { readTraffic } from '../../src/actors/requests/request-traffic.ts'
import { connect, openDatabase } from '../../src/db/client.ts'
import { applyMigrations, migrations } from '../../src/db/migrate.ts'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import { makeRequestSums } from '../../src/db/queries/requests/request-traffic.ts'
import { dayMs, hourMs } from '../../src/time.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

/** Sums of whole days, of which the rows of the first are gone. */
const today = Math.floor(Date.now() / dayMs) * dayMs
const first = today - 4 * dayMs
const perHour = 10
const ofEveryone = { nodeId: null, model: null }

// A request without a first token was counted as one of 1 ms, and past hours kept that in their sums.
test('§32: sums in which missing first tokens were 1 ms are made anew from the rows, or lose them', async () => {
  const old = await emptyDatabase()
  const sql = connect(old.url, { max: 1 })
  const { db, close } = openDatabase({ url: old.url, connectionsMax: 4 })
  try {
    const all = migrations()
    const before = all.findIndex(({ statements }) =>
      statements.some((text) => text.includes('CREATE TABLE request_sums_late')),
    )
    await sql.begin((transaction) => applyMigrations(transaction, all.slice(0, before)))
    await keepRequestRecords(db, new Date(first), new Date(today), new Date(first))
    // Eight of ten have no first token; of the others it took 2 s.
    await insertRequests(
      sql,
      `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${first / 1_000}) + i * interval '${60 / perHour} minutes', 'cus_1', null, 'chat',
        true, 'm', 'node_a', 1, 0, null, 2, case when i % 10 > 7 then 2000 end, 4000, 10, 20, null, 200, null, null, null, null
      from generate_series(0, ${4 * 24 * perHour - 1}) i`,
    )
    while (await makeRequestSums(db, today, first));
    await sql.unsafe(`drop table request_groups_p${new Date(first).toISOString().slice(0, 10).replaceAll('-', '')}`)
    const faulty = await sql`select 1 from request_sums where 0 = any(buckets) and kind = 'all'`
    expect(faulty.length).toBeGreaterThan(4 * 24)
    await sql.begin((transaction) => applyMigrations(transaction, all))

    const stored = await sql<{ span: number; at: string; ttft: number; fast: number }[]>`
      select span_seconds as span, at, (select sum(n)::int from unnest(ttft_counts) n) as ttft,
        (select coalesce(sum(n), 0)::int from unnest(buckets, ttft_counts) u (b, n) where b <= 0) as fast
      from request_sums where kind = 'all' order by at`
    expect(stored.filter(({ span }) => span === 86_400).map(({ ttft, fast }) => [ttft, fast])).toEqual([
      [0, 0],
      [2 * 24, 0],
      [2 * 24, 0],
      [2 * 24, 0],
    ])
    const day = async (fromMs: number) => (await readTraffic(db, { fromMs, toMs: fromMs + dayMs }, ofEveryone)).now
    const measured = { requests: 24 * perHour, promptTokens: 240 * perHour }
    const late = { kind: 'all', ...measured, ttftP50: 1_953, ttftP95: 1_953 }
    expect((await day(first + dayMs)).find(({ kind }) => kind === 'all')).toMatchObject(late)
    const gone = { kind: 'all', ...measured, ttftP50: null, ttftP95: null }
    expect((await day(first)).find(({ kind }) => kind === 'all')).toMatchObject(gone)
    const hours = await readTraffic(db, { fromMs: today - 5 * hourMs, toMs: today }, ofEveryone)
    expect(hours.now.map(({ ttftP95 }) => ttftP95)).toEqual([1_953, 1_953, 1_953])
  } finally {
    await close()
    await sql.end()
    await old.drop()
  }
})
