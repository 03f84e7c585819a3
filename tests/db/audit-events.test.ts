import { expect, test } from 'bun:test'
import {
  type AccessEventRow,
  ensureAuditPartitions,
  insertAccessEvents,
  listAccessEvents,
} from '../../src/db/queries/audit/audit-events.ts'
import { newId } from '../../src/ids.ts'
import { dayMs } from '../../src/time.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())
await ensureAuditPartitions(database.db, new Date('2025-01-01T00:00:00Z'), new Date('2025-03-01T00:00:00Z'))

const first = Date.parse('2025-01-01T00:00:00Z')
const event = (index: number, more: Partial<AccessEventRow> = {}): AccessEventRow => ({
  eventId: newId('evt'),
  actorType: 'admin_token',
  actorRole: index % 3 === 0 ? 'admin' : 'viewer',
  actorHashPrefix: '0123456789ab',
  method: index % 4 === 0 ? 'POST' : 'GET',
  pathTemplate: index % 4 === 0 ? '/v1/admin/nodes' : '/v1/admin/models',
  queryKeys: ['limit'],
  statusCode: index % 5 === 0 ? 404 : 200,
  outcome: index % 5 === 0 ? 'failed' : 'success',
  errorCode: null,
  userAgentHashPrefix: null,
  ipHashPrefix: 'ba9876543210',
  requestId: newId('req'),
  createdAt: new Date(first + index * 60_000),
  ...more,
})

test('§16: partitions are weeks, made once, whatever part of them is asked for', async () => {
  const { db, sql } = database
  const again = await ensureAuditPartitions(db, new Date('2025-01-03T00:00:00Z'), new Date('2025-02-26T12:00:00Z'))
  expect(again).toBe(0)
  const names = await sql<{ name: string }[]>`
    select inhrelid::regclass::text as name from pg_inherits
    where inhparent = 'admin_access_events'::regclass order by 1`
  const own = names.map(({ name }) => name.replace('admin_access_events_p', ''))
  expect(own.slice(0, 3)).toEqual(['20241230', '20250106', '20250113'])
  const both = await Promise.all(
    [1, 2, 3].map(() => ensureAuditPartitions(db, new Date('2025-03-01T00:00:00Z'), new Date('2025-04-01T00:00:00Z'))),
  )
  expect(both.filter((made) => made > 0)).toHaveLength(1)
})

test('§16: events are written once, and listed newest first by every filter and all of them', async () => {
  const { db } = database
  const events = Array.from({ length: 12_000 }, (_, index) => event(index))
  const rare = event(1, { statusCode: 503, method: 'PUT', pathTemplate: '/v1/admin/rare' })
  await insertAccessEvents(db, [...events, rare])
  await insertAccessEvents(db, events.slice(0, 100))
  const newest = events.toReversed()
  const ids = (rows: readonly AccessEventRow[]) => rows.map(({ eventId }) => eventId)
  const all = await listAccessEvents(db, {}, 1_000)
  expect(all).toEqual(newest.slice(0, 1_000))
  const filters = [
    { method: 'POST' },
    { statusCode: 404 },
    { actorRole: 'admin' as const, statusCode: 200 },
    { pathTemplate: '/v1/admin/nodes', method: 'POST', statusCode: 404, actorRole: 'viewer' as const },
    { pathTemplate: '/v1/admin/nodes', method: 'GET' },
  ]
  for (const filter of filters) {
    const wanted = Object.entries(filter)
    const fits = newest.filter((row) => wanted.every(([name, value]) => row[name as keyof AccessEventRow] === value))
    expect(ids(await listAccessEvents(db, filter, 700))).toEqual(ids(fits.slice(0, 700)))
  }
  // Beyond the newest 10 000: found by the indexes of the filters.
  expect(ids(await listAccessEvents(db, { statusCode: 503 }, 10))).toEqual([rare.eventId])
  expect(await listAccessEvents(db, { statusCode: 503, method: 'GET' }, 10)).toEqual([])
  expect(events.at(-1)?.createdAt.getTime()).toBeLessThan(first + 59 * dayMs)
})
