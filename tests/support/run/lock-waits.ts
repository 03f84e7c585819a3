import type postgres from 'postgres'

/** How many statements `like` this wait for a lock: of the test's own database, since all databases of the run are on one server. */
export async function lockWaits(sql: postgres.Sql, like = '%'): Promise<number> {
  const waiting = await sql`select 1 from pg_stat_activity
    where wait_event_type = 'Lock' and datname = current_database() and query like ${like}`
  return waiting.length
}
