import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'
import { AdminFailures } from '../../../src/protocol/wire/admin/failures.ts'
import type { AdminRequest, AdminRequestList } from '../../../src/protocol/wire/admin/requests.ts'
import { dayMs, minuteMs } from '../../../src/time.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { insertRequests } from '../../support/pools/request-rows.ts'
import { fixture } from '../../support/run/fixture.ts'

const now = Math.floor(Date.now() / minuteMs) * minuteMs
const rows = 6_000

const gateway = await fixture(startTestGateway())
const { db, sql } = gateway.database
await keepRequestRecords(db, new Date(now - 2 * dayMs), new Date(now), new Date(0))
// 100 a minute, for an hour. Of a hundred: ten are refused by a policy, six fail on a node, one stream breaks, ten clients leave.
await insertRequests(
  sql,
  `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${now / 1_000}) - i * interval '600 milliseconds' - interval '1 second',
      'cus_' || i % 3, 'key_' || i % 7, 'chat', true, 'model-' || i % 2, case when i % 100 >= 10 then 'node_' || i % 4 end,
      1, 0, null, 2, 100, 4000, 10, 20, null,
      case when i % 100 < 10 then 403 when i % 100 < 16 then 502 when i % 100 = 16 then 200 when i % 100 >= 90 then 499 else 200 end,
      case when i % 100 < 10 then 'privacy_class_not_allowed' when i % 100 < 16 then 'upstream_error' when i % 100 = 16 then 'of_a_later_version'
        when i % 100 >= 90 then 'client_closed' end, null, null, null
    from generate_series(0, ${rows - 1}) i`,
)

const iso = (ms: number) => new Date(ms).toISOString()
const ask = (query: string, as: 'viewer' | 'operator' = 'operator') =>
  gateway.ask('GET', `/v1/admin/failures?${query}`, { as })
async function failures(query: string, as: 'viewer' | 'operator' = 'operator'): Promise<AdminFailures> {
  const answer = await ask(query, as)
  expect(answer.status).toBe(200)
  const found = (await answer.json()) as AdminFailures
  expect([...Value.Errors(AdminFailures, found)]).toEqual([])
  return found
}
const hour = `from=${iso(now - 61 * minuteMs)}&to=${iso(now)}`
const counted = ({ failures: found }: AdminFailures) =>
  found.map(({ status, code, requests }) => [status, code, requests])

test('§32: failed requests stand together by status and code, with whom and what they concern; who left has not failed', async () => {
  const found = await failures(hour)
  expect(counted(found)).toEqual([
    [403, 'privacy_class_not_allowed', 600],
    [502, 'upstream_error', 360],
    [200, 'of_a_later_version', 60],
  ])
  expect(found).toMatchObject({ complete: true, count: 3, from: iso(now - 61 * minuteMs), to: iso(now) })
  const [denied, , later] = found.failures
  expect(denied).toMatchObject({
    first_at: iso(now - 1_000 - 5_909 * 600),
    last_at: iso(now - 1_000),
    request_id: `req_${'0'.repeat(26)}`,
    model_count: 2,
    node_count: 0,
    key_count: 7,
    customer_count: 3,
    nodes: [],
    models: [
      { name: 'model-0', requests: 300 },
      { name: 'model-1', requests: 300 },
    ],
  })
  expect(denied?.customers.map(({ requests }) => requests)).toEqual([200, 200, 200])
  expect(denied?.keys).toHaveLength(3)
  expect(denied?.help_url).toEndWith('/docs/errors#privacy_class_not_allowed')
  // What this version does not know is shown as it is.
  expect(later).toMatchObject({
    title: 'of_a_later_version',
    help_url: null,
    nodes: [{ name: 'node_0', requests: 60 }],
  })
})

test('§32: a plot of failures by time and status has every one of them, and each in its minute', async () => {
  const { points, step_seconds: seconds } = await failures(hour)
  expect(seconds).toBe(60)
  const sums = Map.groupBy(points, ({ status }) => status)
  expect([...sums].map(([status, all]) => [status, all.reduce((sum, { requests }) => sum + requests, 0)])).toEqual(
    expect.arrayContaining([
      [403, 600],
      [502, 360],
      [200, 60],
    ]),
  )
  expect(points.find(({ at, status }) => at === iso(now - 10 * minuteMs) && status === 502)?.requests).toBe(6)
  expect((await failures(`${hour}&customer_id=cus_1`)).points.reduce((sum, { requests }) => sum + requests, 0)).toBe(
    340,
  )
  expect((await failures(`from=${iso(now - dayMs)}&to=${iso(now)}`)).step_seconds).toBe(3_600)
})

test('§32: of one customer, key, model or node alone, and of a part of the time', async () => {
  expect(counted(await failures(`${hour}&customer_id=cus_1`))).toEqual([
    [403, 'privacy_class_not_allowed', 200],
    [502, 'upstream_error', 120],
    [200, 'of_a_later_version', 20],
  ])
  expect(counted(await failures(`${hour}&model=model-1&node_id=node_3`))).toEqual([[502, 'upstream_error', 120]])
  expect(counted(await failures(`${hour}&key_id=key_none`))).toEqual([])
  const minute = `from=${iso(now - minuteMs - 1_000)}&to=${iso(now - 1_000 + 1)}`
  expect(counted(await failures(minute))).toEqual([
    [403, 'privacy_class_not_allowed', 11],
    [502, 'upstream_error', 6],
    [200, 'of_a_later_version', 1],
  ])
})

test('§32: a viewer learns how many it concerns and not whom; a range beyond seven days is refused', async () => {
  const [denied] = (await failures(hour, 'viewer')).failures
  expect(denied).toMatchObject({ customer_count: 3, key_count: 7, customers: [], keys: [] })
  expect((await ask(`${hour}&customer_id=cus_1`, 'viewer')).status).toBe(403)
  expect((await ask(`from=${iso(now - 8 * dayMs)}&to=${iso(now)}`)).status).toBe(400)
})

test('§32: the list of requests shows those that failed, were refused or broke, and each cluster its own', async () => {
  const list = async (query: string) => {
    const found: AdminRequest[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const path = `/v1/admin/requests?limit=1000&${query}${cursor === '' ? '' : `&cursor=${cursor}`}`
      const answer = await gateway.ask('GET', path, { as: 'operator' })
      expect(answer.status).toBe(200)
      const page = (await answer.json()) as AdminRequestList
      found.push(...page.requests)
      cursor = page.next_cursor
    }
    return found
  }
  expect(await list('outcome=failed')).toHaveLength(1_020)
  const broken = await list('outcome=5xx')
  expect([broken.length, new Set(broken.map(({ status }) => status))]).toEqual([360, new Set([502])])
  const refused = await list('outcome=4xx')
  expect([refused.length, new Set(refused.map(({ status }) => status))]).toEqual([600, new Set([403])])
  expect(await list(`outcome=failed&customer_id=cus_1&from=${iso(now - 30 * minuteMs)}`)).toHaveLength(170)
  expect((await gateway.ask('GET', '/v1/admin/requests?outcome=left', { as: 'operator' })).status).toBe(400)
})
