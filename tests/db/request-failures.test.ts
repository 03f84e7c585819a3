import { expect, test } from 'bun:test'
import { clustersMax, failureRowsMax, requestFailures } from '../../src/db/queries/requests/request-failures.ts'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import { dayMs, hourMs, minuteMs } from '../../src/time.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { scoped } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const now = Math.floor(Date.now() / minuteMs) * minuteMs
const everything = { model: null, nodeId: null, customerId: null, keyId: null }

test('§32: of very many failed requests the newest are read, and it says from when on; of very many causes the most frequent', async () => {
  await using database = await scoped(testDatabase())
  await keepRequestRecords(database.db, new Date(now - dayMs), new Date(now), new Date(now - dayMs))
  const rows = failureRowsMax + 20_000
  // Each has one of 300 codes, the first of them more often.
  await insertRequests(
    database.sql,
    `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${now / 1_000}) - i * interval '25 milliseconds' - interval '1 second',
        'cus_1', null, 'chat', true, 'm', null, 1, 0, null, 2, 100, 4000, 10, 20, null, 502,
        'code_' || case when i % 2 = 0 then 0 else i % 300 end, null, null, null
      from generate_series(0, ${rows - 1}) i`,
  )
  const asked = { fromMs: now - hourMs, toMs: now }
  const { clusters, reachMs } = await requestFailures(database.db, asked, everything)
  expect(clusters).toHaveLength(clustersMax)
  expect(clusters[0]).toMatchObject({ status: 502, code: 'code_0', distinct: { model: 1, node: 0, customer: 1 } })
  const read = reachMs ?? 0
  // Groups are read whole: what is newer than the moment is counted, and little of what is older.
  const newer = Math.floor((now - 1_000 - read) / 25)
  expect(newer).toBeGreaterThan(failureRowsMax - 2_500)
  expect(clusters[0]?.requests).toBeGreaterThanOrEqual(newer / 2)
  expect(clusters[0]?.requests).toBeLessThanOrEqual(failureRowsMax / 2 + 250)
  const recent = await requestFailures(database.db, { fromMs: now - 10 * minuteMs, toMs: now }, everything)
  expect(recent.reachMs).toBeNull()
  expect(recent.clusters.length).toBe(clustersMax)
})
