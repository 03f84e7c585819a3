import { sql } from 'drizzle-orm'
import type { Database } from '../client.ts'

/** Fails without the database, and without the tables of the migrations. */
export async function askDatabase(db: Database): Promise<void> {
  await db.execute(sql`select 1 from directory_versions limit 1`)
}
