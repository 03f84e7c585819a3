import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { RequestLog } from '../../../src/actors/requests/request-log.ts'
import { sumRequests } from '../../../src/actors/requests/request-traffic.ts'
import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'
import { createLog } from '../../../src/log.ts'
import { AdminFirstTokens, AdminTraffic } from '../../../src/protocol/wire/admin/traffic.ts'
import { dayMs, hourMs, minuteMs } from '../../../src/time.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { insertRequests } from '../../support/pools/request-rows.ts'
import { fixture } from '../../support/run/fixture.ts'

const days = 7
/** In the middle of an hour, so that what is over and what is not are both there. */
const now = Math.floor(Date.now() / hourMs) * hourMs - hourMs / 2
const rows = 8_400

const gateway = await fixture(startTestGateway())
const { db, sql } = gateway.database
await keepRequestRecords(db, new Date(now - days * dayMs), new Date(now), new Date(0))
// 50 an hour. The later ones wait ten times as long for its first token; every tenth fails; every hundredth client left.
await insertRequests(
  sql,
  `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${now / 1_000}) - i * (interval '${days} days' / ${rows}) - interval '1 second',
      'cus_1', null, 'chat', true, 'model-' || i % 3, case when i % 5 > 0 then 'node_' || i % 5 end, 1, 0, null, 2,
      case when i <= ${rows} * 0.6 then 10 else 1 end * (100 + i % 100), 4000, 10, 20, null,
      case when i % 100 = 50 then 499 when i % 10 = 0 then 502 else 200 end,
      case when i % 100 = 50 then 'client_closed' when i % 10 = 0 then 'upstream_error' end, null, null, null
    from generate_series(0, ${rows - 1}) i`,
)

const iso = (ms: number) => new Date(ms).toISOString()
async function traffic(fromMs: number, more = ''): Promise<AdminTraffic> {
  const response = await gateway.ask('GET', `/v1/admin/traffic?from=${iso(fromMs)}&to=${iso(now)}${more}`, {
    as: 'viewer',
  })
  expect(response.status).toBe(200)
  const found = (await response.json()) as AdminTraffic
  expect([...Value.Errors(AdminTraffic, found)]).toEqual([])
  return found
}
/** The percentile of exact values; what is answered may be off by 5 %. */
const near = (seen: number | null, exact: number) => expect(Math.abs((seen ?? 0) / exact - 1)).toBeLessThan(0.06)
const shapeOf = ({ now, before, points, nodes, models }: AdminTraffic) => ({
  now,
  before,
  points,
  nodes: nodes.toSorted((a, b) => a.node_id.localeCompare(b.node_id)),
  models: models.toSorted((a, b) => a.model.localeCompare(b.model)),
})

test('§32: a range comes with its percentiles, by node and by model, beside the range before', async () => {
  const hour = await traffic(now - hourMs)
  expect(hour).toMatchObject({
    step_seconds: 60,
    kept_days: days,
    complete: true,
    from: iso(now - hourMs),
    to: iso(now),
  })
  expect(hour.now).toMatchObject({ requests: 50, prompt_tokens: 500, completion_tokens: 1_000 })
  expect(hour.now.failed).toBe(5)
  expect(hour.before.failed).toBe(4)
  near(hour.now.ttft_p50_ms, 1_245)
  near(hour.now.ttft_p95_ms, 1_470)
  near(hour.now.duration_p95_ms, 4_000)
  expect(hour.before.requests).toBe(50)
  expect(hour.points.reduce((sum, { requests }) => sum + requests, 0)).toBe(100)
  expect(hour.nodes.map(({ now }) => now.requests)).toEqual([10, 10, 10, 10])
  expect(hour.models.reduce((sum, { now }) => sum + now.requests, 0)).toBe(50)
})

async function firstTokens(fromMs: number, more = ''): Promise<AdminFirstTokens> {
  const path = `/v1/admin/traffic/first-tokens?from=${iso(fromMs)}&to=${iso(now)}${more}`
  const response = await gateway.ask('GET', path, { as: 'viewer' })
  expect(response.status).toBe(200)
  const found = (await response.json()) as AdminFirstTokens
  expect([...Value.Errors(AdminFirstTokens, found)]).toEqual([])
  return found
}
const bucketsIn = ({ points }: AdminFirstTokens) => points.flatMap(({ buckets }) => buckets)
const countIn = (found: AdminFirstTokens) => bucketsIn(found).reduce((sum, { count }) => sum + count, 0)

test('§32: first tokens are counted by time and by how long they took: all of them, of a node, of a model', async () => {
  const hour = await firstTokens(now - hourMs)
  expect(hour).toMatchObject({ step_seconds: 60, kept_days: days, complete: true, from: iso(now - hourMs) })
  expect(countIn(hour)).toBe(50)
  // The last fifty took 1,000 to 1,490 ms.
  for (const { above_ms: above, to_ms: to } of bucketsIn(hour)) expect([above < 1_500, to > 950]).toEqual([true, true])
  for (const more of ['', '&model=model-1', '&node_id=node_2']) {
    const whole = await firstTokens(now - days * dayMs, more)
    expect(whole.step_seconds).toBe(3_600)
    expect(countIn(whole)).toBe((await traffic(now - days * dayMs, more)).now.requests)
    const times = new Set(bucketsIn(whole).map(({ above_ms: above, to_ms: to }) => `${above}–${to}`))
    // All took 100 to 199 or 1,000 to 1,990 ms; a bucket ends where the next one begins.
    expect([...times].toSorted()).toEqual(
      ['1160–1860', '172–277', '1860–3000', '107–172', '66.3–107', '718–1160'].toSorted(),
    )
  }
  expect((await firstTokens(now - 60 * dayMs)).step_seconds).toBe(86_400)
  expect(countIn(await firstTokens(now - 60 * dayMs, '&node_id=node_none'))).toBe(0)
})

test('§32: what is summed up by hours and days is what the rows say', async () => {
  const asked = [8 * hourMs, 3 * dayMs, days * dayMs] as const
  const read = async () => {
    const whole = await Promise.all(asked.map((ms) => traffic(now - ms)))
    return [
      ...whole,
      await traffic(now - 3 * dayMs, '&model=model-1'),
      await traffic(now - 3 * dayMs, '&node_id=node_2'),
    ]
  }
  const fromRows = (await read()).map(shapeOf)
  const firstOfRows = await firstTokens(now - 3 * dayMs)
  await sumRequests(gateway.database.db, now, now - days * dayMs)
  const [{ hours, wholeDays } = { hours: 0, wholeDays: 0 }] = await gateway.database.sql<
    { hours: number; wholeDays: number }[]
  >`select count(*) filter (where span_seconds = 3600)::int as hours,
      count(*) filter (where span_seconds = 86400)::int as "wholeDays" from request_sums where kind = 'all'`
  expect(hours).toBeGreaterThanOrEqual(days * 24 - 2)
  expect(wholeDays).toBeGreaterThanOrEqual(days - 1)
  expect((await read()).map(shapeOf)).toEqual(fromRows)
  expect((await firstTokens(now - 3 * dayMs)).points).toEqual(firstOfRows.points)
  const week = fromRows[2]
  expect(week?.now.requests).toBe(rows)
  near(week?.now.ttft_p50_ms ?? null, 1_165)
  expect(fromRows[3]).toMatchObject({ nodes: [], models: [] })
  expect(Math.round((fromRows[3]?.now.requests ?? 0) / 10)).toBe(121)
})

test('§37: the requests of an hour of a past day, by model, are what the traffic of that hour was', async () => {
  const { db, sql } = gateway.database
  await sumRequests(db, now, now - days * dayMs)
  const quiet = createLog('error', () => {})
  const fromMs = Math.floor((now - 2 * dayMs) / hourMs) * hourMs
  const requests = new RequestLog({ db, sql, log: quiet, days, flushMs: 1_000 })
  const found = await requests.modelRequests({ fromMs, toMs: fromMs + hourMs })
  expect([...found.keys()].sort()).toEqual(['model-0', 'model-1', 'model-2'])
  expect([...found.values()].reduce((sum, count) => sum + count, 0)).toBe(50)
  const none = new RequestLog({ db, sql, log: quiet, days: 0, flushMs: 1_000 })
  expect(await none.modelRequests({ fromMs, toMs: fromMs + hourMs })).toEqual(new Map())
})

test('§32: sums older than what is kept go, and requests of the present are counted at once', async () => {
  const { db, sql } = gateway.database
  await sumRequests(db, now, now - dayMs)
  const [{ oldest } = { oldest: 0 }] = await sql<{ oldest: number }[]>`
    select (extract(epoch from min(at)) * 1000)::float8 as oldest from request_sums`
  expect(oldest).toBeGreaterThanOrEqual(now - 2 * dayMs)
})

test('§32: a range that is none, or too long, is refused', async () => {
  for (const query of [`from=${iso(now)}&to=${iso(now - minuteMs)}`, `from=${iso(now - 400 * dayMs)}`]) {
    expect((await gateway.ask('GET', `/v1/admin/traffic?${query}`, { as: 'viewer' })).status).toBe(400)
  }
  expect((await gateway.ask('GET', '/v1/admin/traffic')).status).toBe(401)
})
