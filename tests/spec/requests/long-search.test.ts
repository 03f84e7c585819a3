import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'
import { AdminRequestList } from '../../../src/protocol/wire/admin/requests.ts'
import { hourMs } from '../../../src/time.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { insertRequests } from '../../support/pools/request-rows.ts'
import { fixture } from '../../support/run/fixture.ts'

const rows = 60_000
/** The two that have both names, newest first. */
const wanted = [45_000, 10]

const gateway = await fixture(startTestGateway())
const { db, sql } = gateway.database
const first = Date.now() - hourMs
await keepRequestRecords(db, new Date(first), new Date(), new Date(0))
await insertRequests(
  sql,
  `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${first / 1_000}) + i * interval '10 ms', 'cus_1', null::text, 'chat', true,
      'model-' || case when i in (${wanted.join()}) then 1 else i % 2 end, 'node_' || case when i in (${wanted.join()}) then 0 else i % 2 end,
      1, 0, null::int, 2, 3, 4, 5, 6, null::int, 200, null::text, null::text, null::text, null::text
    from generate_series(1, ${rows}) i`,
)

const filter = 'model=model-1&node_id=node_0'
const numberOf = (id: string) => Number(id.slice(4))

test('§32: a page may be empty and lead on: whoever follows `next_cursor` or `Link` finds all', async () => {
  const found: number[] = []
  const counts: number[] = []
  let path = `/v1/admin/requests?${filter}`
  for (;;) {
    const response = await gateway.ask('GET', path, { as: 'operator' })
    expect(response.status).toBe(200)
    const page = (await response.json()) as AdminRequestList
    expect([...Value.Errors(AdminRequestList, page)]).toEqual([])
    counts.push(page.count)
    found.push(...page.requests.map(({ request_id }) => numberOf(request_id)))
    expect(page.truncated).toBe(page.next_cursor !== null)
    const link = /^<(.*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1]
    expect(link === undefined).toBe(page.next_cursor === null)
    if (link === undefined) break
    path = new URL(link).pathname + new URL(link).search
  }
  expect(found).toEqual(wanted)
  expect(counts.length).toBeGreaterThan(2)
  expect(counts[0]).toBeLessThan(2)
})

test('§32: a table is whole, however far the search for its rows goes', async () => {
  const table = await (await gateway.ask('GET', `/v1/admin/requests?format=csv&${filter}`, { as: 'operator' })).text()
  const lines = table.split('\r\n').slice(1, -1)
  expect(lines.map((line) => numberOf(line.slice(1, 31)))).toEqual(wanted)
  const limited = await gateway.ask('GET', `/v1/admin/requests?format=csv&limit=1&${filter}`, { as: 'operator' })
  expect((await limited.text()).split('\r\n')).toHaveLength(3)
})
