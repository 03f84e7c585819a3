import { afterAll, beforeAll, expect, test } from 'bun:test'
import { sumRequests } from '../../src/actors/requests/request-traffic.ts'
import type { AdminFailures } from '../../src/protocol/wire/admin/failures.ts'
import type { AdminFirstTokens, AdminTraffic, TrafficMeasure } from '../../src/protocol/wire/admin/traffic.ts'
import { dayMs, hourMs } from '../../src/time.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/http-gateway.ts'
import { days, insertMillion, rows } from '../support/pools/million-requests.ts'

let gateway: TestGateway
const now = Date.now()
beforeAll(async () => {
  gateway = await startTestGateway()
  await insertMillion(gateway.database, now)
  await sumRequests(gateway.database.db, now, now - days * dayMs)
}, 600_000)
afterAll(() => gateway.stop())

/** As `iso` writes it. */
const instant = 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
const iso = (ms: number) => new Date(ms).toISOString()

/** Views of traffic and failures, and what each may ask for. */
const viewRanges = [
  ['an hour', hourMs],
  ['three hours', 3 * hourMs],
  ['a day', dayMs],
  ['a week', 7 * dayMs],
] as const
const viewFilters = [
  ['', 'true'],
  ['&model=model-7', "model = 'model-7'"],
  ['&node_id=node_3', "node_id = 'node_3'"],
  ['&model=model-13&node_id=node_3', "model = 'model-13' and node_id = 'node_3'"],
] as const

interface Counted {
  readonly requests: number
  readonly failed: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly ttft_p50_ms: number | null
  readonly ttft_p95_ms: number | null
  readonly duration_p50_ms: number | null
  readonly duration_p95_ms: number | null
}
const measures = `count(*)::int as requests, count(*) filter (where code is not null and status <> 499)::int as failed,
  coalesce(sum(prompt_tokens), 0)::int as prompt_tokens, coalesce(sum(completion_tokens), 0)::int as completion_tokens,
  percentile_disc(0.5) within group (order by ttft_ms) as ttft_p50_ms, percentile_disc(0.95) within group (order by ttft_ms) as ttft_p95_ms,
  percentile_disc(0.5) within group (order by duration_ms) as duration_p50_ms,
  percentile_disc(0.95) within group (order by duration_ms) as duration_p95_ms`

/** Each row for itself, in a table without the sums and the groups that the views read. */
async function copyRows(): Promise<void> {
  await gateway.database.sql.unsafe(`create table counted_rows as
    select request_id, at, customer_id, key_id, model, node_id, ttft_ms, duration_ms, prompt_tokens, completion_tokens, status, code
    from request_records; create index on counted_rows (at); analyze counted_rows`)
}
const countRows = async (columns: string, from: string, to: string, where: string, more = '') =>
  (await gateway.database.sql.unsafe(
    `select ${columns} from counted_rows where at >= '${from}' and at < '${to}' and ${where} ${more}`,
  )) as unknown as readonly Readonly<Record<string, unknown>>[]

/** Counts are exact, times those of a row to 5 %. */
function agrees(where: string, shown: TrafficMeasure | undefined, counted: Counted): void {
  for (const [name, exact] of Object.entries(counted) as [keyof Counted, number | null][]) {
    const seen = shown?.[name] ?? null
    const isTime = name.endsWith('_ms')
    const same =
      seen === exact || (isTime && seen !== null && exact !== null && Math.abs(seen - exact) <= exact * 0.05 + 0.5)
    if (!same) throw new Error(`${where}: ${name} is ${seen}, the rows say ${exact}`)
  }
}
async function read<T>(path: string): Promise<T> {
  const response = await gateway.ask('GET', path, { as: 'operator' })
  expect(response.status).toBe(200)
  return (await response.json()) as T
}

async function trafficAgrees(range: string, asked: string, filter: string): Promise<void> {
  const found = await read<AdminTraffic>(`/v1/admin/traffic?${asked}`)
  // There are no sums of one model on one node: what would take too long is left out of all figures, and named.
  if (!filter.includes(' and ')) expect([range, found.unread]).toEqual([range, []])
  const where = [filter, ...found.unread.map(({ from, to }) => `not (at >= '${from}' and at < '${to}')`)].join(' and ')
  const [now] = await countRows(measures, found.from, found.to, where)
  agrees(`traffic of ${range} ${where}`, found.now, now as unknown as Counted)
  const [before] = await countRows(measures, found.before_from, found.from, where)
  agrees(`traffic before ${range} ${where}`, found.before, before as unknown as Counted)
  const step = `(extract(epoch from date_bin('${found.step_seconds} seconds', at, 'epoch')) * 1000)::float8`
  const steps = await countRows(`${step} as step, ${measures}`, found.before_from, found.to, where, 'group by 1')
  expect(found.points).toHaveLength(steps.length)
  const points = new Map(found.points.map((point) => [Date.parse(point.at), point]))
  for (const { step: at, ...counted } of steps)
    agrees(`point ${String(at)}`, points.get(Number(at)), counted as unknown as Counted)
  if (filter !== 'true') return
  for (const [name, list] of [
    ['model', found.models.map((each) => [each.model, each.now] as const)],
    ['node_id', found.nodes.map((each) => [each.node_id, each.now] as const)],
  ] as const) {
    const shown = new Map(list)
    const rows = await countRows(
      `${name} as name, ${measures}`,
      found.from,
      found.to,
      `${name} is not null`,
      'group by 1',
    )
    expect(list.filter(([, { requests }]) => requests > 0)).toHaveLength(rows.length)
    for (const { name: of, ...counted } of rows)
      agrees(`${name} ${String(of)} in ${range}`, shown.get(String(of)), counted as unknown as Counted)
  }
}

async function firstTokensAgree(range: string, asked: string, where: string): Promise<void> {
  const found = await read<AdminFirstTokens>(`/v1/admin/traffic/first-tokens?${asked}`)
  if (!found.complete) return expect(where).toContain(' and ')
  const [{ all } = { all: 0 }] = await countRows('count(ttft_ms)::int as all', found.from, found.to, where)
  const buckets = found.points.flatMap((point) => point.buckets)
  expect([range, where, buckets.reduce((sum, { count }) => sum + count, 0)]).toEqual([range, where, Number(all)])
  // A row has whole milliseconds, and the edges are rounded: at an edge it may lie on either side.
  for (const edge of new Set(buckets.map(({ to_ms: to }) => to))) {
    const seen = buckets.filter(({ to_ms: to }) => to <= edge).reduce((sum, { count }) => sum + count, 0)
    const [row] = await countRows(
      `count(*) filter (where ttft_ms < ${edge} * 0.99 - 1)::int as least, count(*) filter (where ttft_ms <= ${edge} * 1.01 + 1)::int as most`,
      found.from,
      found.to,
      where,
    )
    expect(seen).toBeGreaterThanOrEqual(Number(row?.least))
    expect(seen).toBeLessThanOrEqual(Number(row?.most))
  }
}

async function failuresAgree(range: string, asked: string, where: string): Promise<void> {
  const found = await read<AdminFailures>(`/v1/admin/failures?${asked}`)
  const failed = `code is not null and status <> 499 and ${where}`
  const rows = await countRows(
    `status, code, count(*)::int as requests, to_char(min(at) at time zone 'utc', '${instant}') as first_at, to_char(max(at) at time zone 'utc', '${instant}') as last_at, count(distinct model)::int as model_count,
      count(distinct node_id)::int as node_count, count(distinct key_id)::int as key_count, count(distinct customer_id)::int as customer_count`,
    found.from,
    found.to,
    failed,
    'group by 1, 2',
  )
  const shown = found.failures.map((each) => ({
    status: each.status,
    code: each.code,
    requests: each.requests,
    first_at: each.first_at,
    last_at: each.last_at,
    model_count: each.model_count,
    node_count: each.node_count,
    key_count: each.key_count,
    customer_count: each.customer_count,
  }))
  const byCode = (a: { readonly code?: unknown }, b: { readonly code?: unknown }) =>
    String(a.code) < String(b.code) ? -1 : 1
  expect([range, where, shown.toSorted(byCode)]).toEqual([
    range,
    where,
    rows.map((row) => ({ ...row })).toSorted(byCode),
  ] as never)
  expect(found.points.reduce((sum, { requests }) => sum + requests, 0)).toBe(
    shown.reduce((sum, { requests }) => sum + requests, 0),
  )
}

test('§32: a million requests: every view has the numbers of a count over the rows', async () => {
  await copyRows()
  const [{ all } = { all: 0 }] = await gateway.database.sql<
    { all: number }[]
  >`select count(*)::int as all from counted_rows`
  expect(all).toBe(rows)
  for (const [range, ms] of viewRanges) {
    for (const [query, where] of viewFilters) {
      const asked = `from=${iso(now - ms)}&to=${iso(now)}${query}`
      await trafficAgrees(range, asked, where)
      await firstTokensAgree(range, asked, where)
      await failuresAgree(range, asked, where)
    }
  }
  const csv = await (
    await gateway.ask('GET', `/v1/admin/requests?outcome=failed&format=csv&from=${iso(now - dayMs)}&to=${iso(now)}`, {
      as: 'operator',
    })
  ).text()
  const [{ failed } = { failed: -1 }] = await countRows(
    'count(*)::int as failed',
    iso(now - dayMs),
    iso(now),
    'code is not null and status <> 499',
  )
  expect(csv.trim().split('\n')).toHaveLength(Number(failed) + 1)
}, 900_000)
