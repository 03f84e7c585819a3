import { test } from 'bun:test'
import { dayMs, hourMs } from '../../../src/time.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { insertPaid, makeOwners, PaidCounts } from '../../support/pools/paid-requests.ts'
import { fixture } from '../../support/run/fixture.ts'

const rows = 2_000
const now = Date.now()
const gateway = await fixture(startTestGateway())

test('§32: costs, and what customers see of their own, have the numbers of a count over the rows', async () => {
  const owners = await makeOwners(gateway, ['Ada', 'Grace', 'Edsger'])
  await insertPaid(gateway, owners, rows, now)
  const counts = new PaidCounts(gateway, owners)
  for (const ms of [hourMs, dayMs, 8 * dayMs]) await counts.agree(now - ms, now)
  // A range in which nothing was asked.
  await counts.agree(now - 30 * dayMs, now - 20 * dayMs)
})
