import { afterAll, beforeAll, expect, test } from 'bun:test'
import { dayMs, hourMs } from '../../src/time.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/http-gateway.ts'
import { insertPaid, makeOwners, PaidCounts } from '../support/pools/paid-requests.ts'

const rows = 1_000_000
const now = Date.now()
let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
}, 60_000)
afterAll(() => gateway.stop())

test('§32: a million requests: costs, and what customers see of their own, have the numbers of a count over the rows', async () => {
  const owners = await makeOwners(
    gateway,
    Array.from({ length: 20 }, (_, at) => `customer ${at}`),
  )
  await insertPaid(gateway, owners, rows, now)
  const [{ all } = { all: 0 }] = await gateway.database.sql<
    { all: number }[]
  >`select count(*)::int as all from request_records`
  expect(all).toBe(rows)
  // Of costs all customers are in each range; of their own views two of them say as much as twenty.
  const counts = new PaidCounts(gateway, owners.slice(0, 2))
  for (const ms of [hourMs, dayMs, 7 * dayMs]) await counts.agree(now - ms, now)
}, 1_200_000)
