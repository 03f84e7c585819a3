import { expect, test } from 'bun:test'
import { connect } from '../../src/db/client.ts'
import { writeBackup } from '../../src/offline/backup.ts'
import { restoreBackup } from '../../src/offline/restore.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { openBench } from '../support/run/offline.ts'
import { emptyDatabase, testDatabase } from '../support/run/postgres.ts'

const bench = await fixture(openBench())
const database = await fixture(testDatabase())

// The migrations make the weeks around the day of the restore: a backup with an older week in it was "damaged", so that of
// every gateway that had run for two weeks.
test('§24: the audit of weeks that lie far back, and of days to come, is restored', async () => {
  const { sql } = database
  for (const [at, days] of [-120, 60].entries()) {
    const instant = new Date(Date.now() + days * 86_400_000).toISOString()
    await sql`select audit_ensure_partitions(${instant}, ${instant})`
    await sql`insert into admin_access_events (event_id, actor_type, actor_role, method, path_template, query_keys, status_code,
        outcome, request_id, created_at)
      values (${`evt_${at}`}, 'admin', 'admin', 'GET', '/', '[]', 200, 'allowed', 'req_a', ${instant})`
  }
  const file = bench.path('weeks.sql.gz')
  await using target = await scoped(emptyDatabase())
  await writeBackup({ env: { DATABASE_URL: database.url }, target: file, overwrite: false })
  await restoreBackup({
    env: { DATABASE_URL: target.url },
    file,
    overwrite: false,
    secretsTo: null,
    unverified: true,
  })
  const restored = connect(target.url, { max: 1 })
  const rows = await restored`select event_id as id from admin_access_events order by created_at`
  await restored.end()
  expect(rows.map(({ id }) => id)).toEqual(['evt_0', 'evt_1'])
})
