import { fileURLToPath } from 'node:url'
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator'
import { connect } from './client.ts'
import { drizzle, migrate } from './driver.ts'

export const migrationsFolder = fileURLToPath(new URL('./migrations', import.meta.url))

/** All migrations of this version, oldest first. */
export function migrations(): readonly MigrationMeta[] {
  return readMigrationFiles({ migrationsFolder })
}

/** The bytes of "penstock" as one number, so that nobody else's advisory lock is the same by accident. */
const migrationLockKey = '8099000947049456491'
/** Other processes may be migrating; after this the start fails with 55P03. */
const lockWaitMs = 60_000

/**
 * Brings the schema up to date; does nothing when it is. Drizzle's migrator is not safe for two processes at once (one
 * of three got 23505), hence the advisory lock, held by the one connection on which the migrator also runs.
 */
export async function migrateDatabase(url: string): Promise<void> {
  const sql = connect(url, {
    max: 1,
    max_lifetime: null,
    connection: { application_name: 'penstock-migrate', lock_timeout: lockWaitMs },
  })
  try {
    await sql`select pg_advisory_lock(${migrationLockKey})`
    // Statements of a migration may rightly wait longer for a table than the lock above may be waited for.
    await sql`set lock_timeout = 0`
    await migrate(drizzle(sql), { migrationsFolder })
  } finally {
    // Ending the connection frees the lock.
    await sql.end({ timeout: 5 })
  }
}
