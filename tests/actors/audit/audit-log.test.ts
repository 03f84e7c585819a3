import { expect, test } from 'bun:test'
import { adminRoute } from '../../../src/actions/registry.ts'
import { AuditLog } from '../../../src/actors/audit/audit-log.ts'
import { createLog } from '../../../src/log.ts'
import { dayMs, hourMs } from '../../../src/time.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())

test('§16: the partitions of the next four weeks are made at the start, and looked after every hour', async () => {
  const clock = new VirtualClock()
  const startedMs = Date.UTC(2031, 0, 1)
  const partitions = async () => {
    const [row] = await database.sql`
      select count(*)::int as count from pg_inherits where inhparent = 'admin_access_events'::regclass`
    return Number(row?.count)
  }
  const options = { db: database.db, log: createLog('silent', () => {}), keys: ['audit-key-of-the-tests'] }
  let atMs = startedMs
  const audit = new AuditLog({ ...options, clock, now: () => atMs, policyOf: adminRoute })
  await audit.start()
  const first = await partitions()
  atMs += 7 * dayMs
  await clock.pass(hourMs - 1)
  expect(await partitions()).toBe(first)
  await clock.pass(1)
  await waitUntil('one more week', async () => (await partitions()) === first + 1)
  await audit.stop()
  expect(clock.waits).toEqual([])
})
