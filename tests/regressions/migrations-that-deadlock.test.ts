import { expect, test } from 'bun:test'
import { connect } from '../../src/db/client.ts'
import { applyMigrations, migrateDatabase, migrations } from '../../src/db/migrate.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { emptyDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

// Beside a gateway of the version before that charged, a migration and a charge waited for each other. PostgreSQL ended the migration, and the
// new gateway did not start.
test('a migration that PostgreSQL ends for a deadlock is begun anew', async () => {
  const old = await emptyDatabase()
  const sql = connect(old.url, { max: 2 })
  try {
    const all = migrations()
    const leases = all.findIndex(({ statements }) =>
      statements.some((text) => text.includes('CREATE TABLE "money_leases"')),
    )
    await sql.begin((transaction) => applyMigrations(transaction, all.slice(0, leases)))
    // Each side looks for a deadlock once, after this wait: the migration does so first.
    await sql.unsafe(`alter database ${new URL(old.url).pathname.slice(1)} set deadlock_timeout = '3s'`)
    const migrated = await sql.begin(async (charge) => {
      await charge`set local deadlock_timeout = '60s'`
      await charge`lock table customers in row exclusive mode`
      const migrating = migrateDatabase(old.url).then(() => 'migrated')
      await waitUntil('the migration waits for the charge', async () => (await lockWaits(sql)) > 0)
      // Granted only because the migration gives way.
      await charge`lock table ledger_entries in row exclusive mode`
      return { migrating }
    })
    expect(await migrated.migrating).toBe('migrated')
    const [newest] = await sql`select max(created_at)::text as at from drizzle.__drizzle_migrations`
    expect(newest?.at).toBe(String(all.at(-1)?.madeAt))
  } finally {
    await sql.end()
    await old.drop()
  }
})
