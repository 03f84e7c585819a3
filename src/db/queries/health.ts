import { sql } from 'drizzle-orm'
import type { Database } from '../client.ts'

/** So many kB are written where the database sorts, beside its tables, and are gone with the answer. */
const trialRows = 4_000
const trialMemory = '64kB'

/**
 * Fails without the database, without the tables of the migrations, and where it has no room left to write: a full disk
 * still answers every read from memory.
 */
export async function askDatabase(db: Database): Promise<void> {
  await db.execute(sql`select 1 from directory_versions limit 1`)
  await db.transaction(async (tx) => {
    await tx.execute(sql`select set_config('work_mem', ${trialMemory}, true)`)
    await tx.execute(sql`select count(*) from generate_series(1, ${trialRows})`)
  })
}
