import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'

export const placementsChannel = 'penstock_placements'

/** Each notice reaches every gateway that listens, the sender too; nothing is stored. */
export async function tellPlacements(db: Database, notices: readonly string[]): Promise<void> {
  if (notices.length === 0) return
  await db.execute(
    sql`select pg_notify(${placementsChannel}, notice) from json_array_elements_text(${JSON.stringify(notices)}::text::json) as notice`,
  )
}
