import { expect, test } from 'bun:test'
import { sumRequests } from '../../src/actors/requests/request-traffic.ts'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import type { AdminTraffic } from '../../src/protocol/wire/admin/traffic.ts'
import { dayMs, hourMs } from '../../src/time.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'

const endMs = Math.floor(Date.now() / hourMs) * hourMs - hourMs

/** Sums are of one node or of one model: with both, a range of more than three hours had all requests of the node. */
const gateway = await fixture(startTestGateway())
const { db, sql } = gateway.database
await keepRequestRecords(db, new Date(endMs - 2 * dayMs), new Date(), new Date(0))
// Six models on two nodes, one request a minute, for a day.
await insertRequests(
  sql,
  `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${endMs / 1_000}) - i * interval '1 minute', 'cus_1', null, 'chat', true,
      'm' || i % 6, 'n' || i % 2, 1, 0, null, 2, 100, 4000, 10, 20, null, 200, null, null, null, null from generate_series(1, 1440) i`,
)
await sumRequests(db, Date.now(), endMs - 2 * dayMs)

test('§32: traffic of one model on one node has the requests of that model on that node, in any range', async () => {
  for (const hours of [2, 12]) {
    const range = `from=${new Date(endMs - hours * hourMs).toISOString()}&to=${new Date(endMs).toISOString()}`
    const requests = async (filter: string) => {
      const answer = await gateway.ask('GET', `/v1/admin/traffic?${range}${filter}`, { as: 'viewer' })
      const { now, points, complete } = (await answer.json()) as AdminTraffic
      const inRange = points.filter(({ at }) => Date.parse(at) >= endMs - hours * hourMs)
      return [now.requests, inRange.reduce((sum, point) => sum + point.requests, 0), complete]
    }
    const minutes = hours * 60
    expect(await requests('&node_id=n1')).toEqual([minutes / 2, minutes / 2, true])
    expect(await requests('&model=m3')).toEqual([minutes / 6, minutes / 6, true])
    expect(await requests('&model=m3&node_id=n1')).toEqual([minutes / 6, minutes / 6, true])
    expect(await requests('&model=m3&node_id=n0')).toEqual([0, 0, true])
  }
})
