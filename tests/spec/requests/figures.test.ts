import { beforeEach, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { FinishedRequest } from '../../../src/actors/requests/request-kinds.ts'
import { sumRequests } from '../../../src/actors/requests/request-traffic.ts'
import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'
import { idMs, ulid } from '../../../src/ids.ts'
import type { AdminRequestList } from '../../../src/protocol/wire/admin/requests.ts'
import type { AdminTraffic, TrafficMeasure } from '../../../src/protocol/wire/admin/traffic.ts'
import { dayMs, hourMs, minuteMs } from '../../../src/time.ts'
import { parseCsv } from '../../support/clients/csv.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { finishedRequest } from '../../support/pools/random-requests.ts'
import { insertRequests } from '../../support/pools/request-rows.ts'
import { fixture } from '../../support/run/fixture.ts'

/** The end of all ranges: early in an hour, so that the last whole hour is not summed up yet. */
const now = Math.floor(Date.now() / hourMs) * hourMs - hourMs + 10 * minuteMs
const spanMs = 50 * hourMs

const gateway = await fixture(startTestGateway())
await keepRequestRecords(gateway.database.db, new Date(now - 40 * dayMs), new Date(), new Date(0))

const clear = async () =>
  void (await gateway.database.sql.unsafe('truncate request_groups, request_sums, request_sums_late'))
beforeEach(clear)

const iso = (ms: number) => new Date(ms).toISOString()
const atMs = ({ requestId }: FinishedRequest) => idMs(requestId)

async function answered<T>(path: string): Promise<T> {
  const response = await gateway.ask('GET', path, { as: 'operator' })
  expect(response.status).toBe(200)
  return (await response.json()) as T
}

/** The real writer; the answer of a list says that all of it is in the database. */
async function write(requests: readonly FinishedRequest[]): Promise<void> {
  for (const finished of requests) gateway.gateway.requests.write(finished)
  await answered('/v1/admin/requests?limit=1')
}

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0)
/** The least value that such a share of all does not exceed. */
const percentile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? null
const known = (values: readonly (number | null)[]) => values.filter((value) => value !== null)

function naive(requests: readonly FinishedRequest[]) {
  const records = requests.map(({ record }) => record)
  const [first, whole] = [known(records.map(({ ttftMs }) => ttftMs)), records.map(({ latencyMs }) => latencyMs)]
  return {
    counts: {
      requests: records.length,
      failed: records.filter(({ code, status }) => code !== null && status !== 499).length,
      prompt_tokens: sum(records.map(({ usage }) => usage?.prompt_tokens ?? 0)),
      completion_tokens: sum(records.map(({ usage }) => usage?.completion_tokens ?? 0)),
    },
    times: {
      ttft_p50_ms: percentile(first, 0.5),
      ttft_p95_ms: percentile(first, 0.95),
      duration_p50_ms: percentile(whole, 0.5),
      duration_p95_ms: percentile(whole, 0.95),
    },
  }
}

/** Counts are exact, a time is that of its row to 5 %, and to the ms. null is null. */
function agrees(shown: TrafficMeasure, requests: readonly FinishedRequest[], where: string): void {
  const { counts, times } = naive(requests)
  expect({ where, ...shown }).toMatchObject({ where, ...counts })
  for (const [name, exact] of Object.entries(times)) {
    const seen = shown[name as keyof typeof times]
    const isNear = seen !== null && exact !== null && Math.abs(seen - exact) <= exact * 0.05 + 0.5
    if (exact === null ? seen !== null : !isNear) throw new Error(`${where}: ${name} is ${seen}, the rows say ${exact}`)
  }
}

const inRange = (requests: readonly FinishedRequest[], fromMs: number, toMs: number) =>
  requests.filter((request) => atMs(request) >= fromMs && atMs(request) < toMs)

async function trafficAgrees(all: readonly FinishedRequest[], lastMs: number, filter: string): Promise<void> {
  const path = `/v1/admin/traffic?from=${iso(now - lastMs)}&to=${iso(now)}${filter}`
  const traffic = await answered<AdminTraffic>(path)
  expect(traffic.complete).toBe(true)
  const [before, from, to] = [traffic.before_from, traffic.from, traffic.to].map((at) => Date.parse(at)) as [
    number,
    number,
    number,
  ]
  const [here, earlier] = [inRange(all, from, to), inRange(all, before, from)]
  agrees(traffic.now, here, `${path}: now`)
  agrees(traffic.before, earlier, `${path}: before`)
  const stepMs = traffic.step_seconds * 1_000
  const stepOf = (request: FinishedRequest) => Math.floor(atMs(request) / stepMs) * stepMs
  const steps = new Set([...here, ...earlier].map(stepOf))
  expect(traffic.points.map(({ at }) => at)).toEqual([...steps].toSorted((a, b) => a - b).map(iso))
  // A step of days may have been begun before the range: what lies in the range counts.
  for (const { at, ...point } of traffic.points) {
    agrees(
      point,
      [...here, ...earlier].filter((request) => iso(stepOf(request)) === at),
      `${path}: ${at}`,
    )
  }
  if (filter !== '') return
  const named = <K extends 'nodeId' | 'model'>(
    kind: K,
    rows: readonly { now: TrafficMeasure; before: TrafficMeasure }[],
    nameOf: (row: never) => string,
  ) => {
    const names = new Set([...here, ...earlier].map(({ record }) => record[kind]).filter((name) => name !== null))
    expect(rows.map((row) => nameOf(row as never)).toSorted()).toEqual([...names].toSorted())
    for (const row of rows) {
      const name = nameOf(row as never)
      const own = (requests: readonly FinishedRequest[]) => requests.filter(({ record }) => record[kind] === name)
      agrees(row.now, own(here), `${path}: ${name} now`)
      agrees(row.before, own(earlier), `${path}: ${name} before`)
    }
  }
  named('nodeId', traffic.nodes, ({ node_id }: { node_id: string }) => node_id)
  named('model', traffic.models, ({ model }: { model: string }) => model)
}

const of = (all: readonly FinishedRequest[], filter: string) => {
  const [, name = '', value = ''] = /^&(\w+)=(.*)$/.exec(filter) ?? []
  return all.filter(({ record, customerId }) =>
    name === 'node_id'
      ? record.nodeId === value
      : name === 'model'
        ? record.model === value
        : name === 'customer_id'
          ? customerId === value
          : name === 'status'
            ? record.status === Number(value)
            : name === 'min_ttft_ms'
              ? record.ttftMs !== null && record.ttftMs >= Number(value)
              : true,
  )
}

const newestFirst = (requests: readonly FinishedRequest[]) =>
  requests.toSorted((a, b) => atMs(b) - atMs(a) || (a.requestId < b.requestId ? 1 : -1))

const shownOf = ({ requestId, customerId, record, stream }: FinishedRequest) => ({
  request_id: requestId,
  at: iso(idMs(requestId)),
  customer_id: customerId,
  stream,
  model: record.model,
  node_id: record.nodeId,
  tries: record.attempts,
  queue_ms: record.queueMs,
  load_ms: record.loadMs,
  sent_ms: record.sentMs,
  ttft_ms: record.ttftMs,
  duration_ms: record.latencyMs,
  prompt_tokens: record.usage?.prompt_tokens ?? null,
  completion_tokens: record.usage?.completion_tokens ?? null,
  status: record.status,
  code: record.code,
})

/** The list in pages, and the table as a whole, hold exactly the rows. */
async function listsAgree(all: readonly FinishedRequest[], filter: string): Promise<void> {
  const wanted = newestFirst(of(all, filter)).map(shownOf)
  const listed: unknown[] = []
  let cursor = ''
  do {
    const page = await answered<AdminRequestList>(`/v1/admin/requests?limit=7${filter}${cursor}`)
    listed.push(...page.requests)
    cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`
  } while (cursor !== '')
  expect(listed).toHaveLength(wanted.length)
  expect(listed).toMatchObject(wanted)
  const csv = await gateway.ask('GET', `/v1/admin/requests?format=csv${filter}`, { as: 'operator' })
  const [columns = [], ...lines] = parseCsv(await csv.text())
  const rows = lines.map((cells) => Object.fromEntries(cells.map((cell, at) => [columns[at], cell])))
  const asText = (row: object) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value === null ? '' : String(value)]))
  expect(rows).toHaveLength(wanted.length)
  expect(rows).toMatchObject(wanted.map(asText))
}

const ranges = [hourMs, 3 * hourMs, 5 * hourMs, 25 * hourMs, 24 * dayMs]
const trafficFilters = ['', '&node_id=node_A', '&model=model-a']
const listFilters = ['', '&node_id=node_B', '&model=model-b', '&customer_id=cus_1', '&status=502', '&min_ttft_ms=1']

/** None, one, only failures without a first token, and any. */
const anyRequests = fc.oneof(
  { weight: 1, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(finishedRequest(now, spanMs), { minLength: 1, maxLength: 1 }) },
  { weight: 1, arbitrary: fc.array(finishedRequest(now, spanMs), { minLength: 1, maxLength: 20 }).map(failedAll) },
  { weight: 7, arbitrary: fc.array(finishedRequest(now, spanMs), { maxLength: 40, size: 'max' }) },
)
function failedAll(requests: readonly FinishedRequest[]): FinishedRequest[] {
  const failure = { status: 502, code: 'upstream_error', ttftMs: null, usage: null } as const
  return requests.map((request) => ({ ...request, record: { ...request.record, ...failure } }))
}

const traffic = fc.record({
  /** Written before the hours are summed up, and behind that. */
  early: anyRequests,
  late: fc.array(finishedRequest(now, spanMs), { maxLength: 6 }),
  summed: fc.boolean(),
  again: fc.boolean(),
  range: fc.constantFrom(...ranges),
  filter: fc.constantFrom(...trafficFilters),
  listed: fc.constantFrom(...listFilters),
})

test('§32: every figure of traffic, lists and tables is what a count over the rows says', async () => {
  const { db } = gateway.database
  await fc.assert(
    fc
      .asyncProperty(traffic, async ({ early, late, summed, again, range, filter, listed }) => {
        await write(early)
        if (summed) await sumRequests(db, now, now - 40 * dayMs)
        await write(late)
        if (again) await sumRequests(db, now, now - 40 * dayMs)
        const all = [...early, ...late]
        await trafficAgrees(of(all, filter), range, filter)
        await listsAgree(all, listed)
      })
      .beforeEach(clear),
    { numRuns: 20 },
  )
})

test('§32: without a measured first token there is none', async () => {
  const [request] = fc.sample(finishedRequest(now, hourMs), 1)
  if (request === undefined) throw new Error('no request')
  await write([{ ...request, record: { ...request.record, ttftMs: null } }])
  const hour = await answered<AdminTraffic>(`/v1/admin/traffic?from=${iso(now - hourMs)}&to=${iso(now)}`)
  expect(hour.now).toMatchObject({ requests: 1, ttft_p50_ms: null, ttft_p95_ms: null })
  expect(hour.before).toMatchObject({ requests: 0, ttft_p50_ms: null, duration_p50_ms: null })
})

test('§32: a day in which one range ends and the next begins is one step with the requests of both', async () => {
  const [request] = fc.sample(finishedRequest(now, hourMs), 1)
  if (request === undefined) throw new Error('no request')
  const fromMs = now - 15 * dayMs
  // By day, the range begins with a whole hour: its end is in the middle of one.
  const moments = [fromMs - 2 * hourMs, fromMs + 2 * hourMs, now - 2 * dayMs]
  const all = moments.map((ms) => ({ ...request, requestId: `req_${ulid(ms)}` as const }))
  await write(all)
  await trafficAgrees(all, 15 * dayMs, '')
  await sumRequests(gateway.database.db, now, now - 40 * dayMs)
  await trafficAgrees(all, 15 * dayMs, '')
})

test('§32: a request that is written late, for a day before all days that are summed up, counts in them', async () => {
  const [request] = fc.sample(finishedRequest(now, hourMs), 1)
  if (request === undefined) throw new Error('no request')
  const today = Math.floor(now / dayMs) * dayMs
  const at = (ms: number) => ({ ...request, requestId: `req_${ulid(ms)}` as const })
  const [early, late] = [at(today - hourMs), at(today - dayMs - 2 * hourMs)]
  await write([early])
  await sumRequests(gateway.database.db, now, now - 40 * dayMs)
  await write([late])
  await sumRequests(gateway.database.db, now, now - 40 * dayMs)
  await trafficAgrees([early, late], 24 * dayMs, '')
})

test('§32: `complete` says when requests of one node were not counted for want of time', async () => {
  const rows = 120_000
  const fromMs = now - 20 * minuteMs
  await insertRequests(
    gateway.database.sql,
    `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${fromMs / 1_000}) + i * interval '10 ms', 'cus_1', null, 'chat', true, 'model-a',
      'node_' || i % 200, 1, 0, null, 2, 3, 4, 5, 6, null, 200, null, null, null, null from generate_series(1, ${rows}) i`,
  )
  for (const filter of ['', '&node_id=node_7', '&model=model-a']) {
    const path = `/v1/admin/traffic?from=${iso(fromMs)}&to=${iso(now)}${filter}`
    const { complete, unread, points } = await answered<AdminTraffic>(path)
    expect({ filter, complete, parts: unread.map(({ from }) => from) }).toEqual({
      filter,
      complete: false,
      parts: [iso(fromMs)],
    })
    const [readFromMs = 0] = unread.map(({ to }) => Date.parse(to))
    // What was read begins where the rest ends, in the same minute.
    expect(points.map(({ at }) => Date.parse(at))[0]).toBe(Math.floor(readFromMs / minuteMs) * minuteMs)
  }
  const last = `/v1/admin/traffic?from=${iso(now - 5 * minuteMs)}&to=${iso(now)}&node_id=node_7`
  const { complete, now: shown } = await answered<AdminTraffic>(last)
  expect({ complete, requests: shown.requests }).toEqual({ complete: true, requests: rows / 4 / 200 })
})
