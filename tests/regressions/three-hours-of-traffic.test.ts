import { expect, test } from 'bun:test'
import { sumRequests } from '../../src/actors/requests/request-traffic.ts'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import type { AdminFirstTokens, AdminTraffic } from '../../src/protocol/wire/admin/traffic.ts'
import { dayMs, hourMs, minuteMs } from '../../src/time.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * A range of three hours that begins within a minute was a minute longer once it was widened to whole minutes, and then read from the
 * sums of whole hours: the part of the first hour was missing, up to a third of all requests.
 */
/** Half a minute into a minute, in the middle of an hour. */
const endMs = Math.floor(Date.now() / hourMs) * hourMs - 5 * hourMs + 30.5 * minuteMs

const gateway = await fixture(startTestGateway())
const { db, sql } = gateway.database
await keepRequestRecords(db, new Date(endMs - 2 * dayMs), new Date(), new Date(0))
// One every ten seconds, for eight hours.
await insertRequests(
  sql,
  `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${endMs / 1_000}) - i * interval '10 seconds', 'cus_1', null, 'chat', true, 'm', null,
      1, 0, null, 2, 100, 4000, 10, 20, null, 200, null, null, null, null from generate_series(1, 2880) i`,
)
await sumRequests(db, Date.now(), endMs - dayMs)

async function read<T>(path: string): Promise<T> {
  const range = `from=${new Date(endMs - 3 * hourMs).toISOString()}&to=${new Date(endMs).toISOString()}`
  return (await (await gateway.ask('GET', `${path}?${range}`, { as: 'viewer' })).json()) as T
}

test('§32: three hours that begin within a minute have all of their requests, and so has the range before', async () => {
  const { now, before, step_seconds: step, from, to } = await read<AdminTraffic>('/v1/admin/traffic')
  const minutes = (Date.parse(to) - Date.parse(from)) / minuteMs
  expect([step, minutes]).toEqual([60, 181])
  // Six a minute; the last half minute has not been.
  expect([now.requests, before.requests]).toEqual([181 * 6 - 3, 181 * 6])
  const { points } = await read<AdminFirstTokens>('/v1/admin/traffic/first-tokens')
  expect(points.flatMap(({ buckets }) => buckets).reduce((sum, { count }) => sum + count, 0)).toBe(now.requests)
})
