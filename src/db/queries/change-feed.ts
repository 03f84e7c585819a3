import type postgres from 'postgres'
import type { Database } from '../client.ts'
import { directoryVersions } from '../schema/change-feed.ts'

export type Topic = (typeof directoryVersions.$inferSelect)['topic']

/** Reads the version of every topic. */
export function versionsQuery(db: Database): () => Promise<readonly { topic: Topic; version: number }[]> {
  const prepared = db.select().from(directoryVersions).prepare('directory_versions')
  return () => prepared.execute()
}

/**
 * Listens to a channel on the driver's one connection for all channels. The driver connects again after a loss; notices
 * sent meanwhile are lost, so callers poll as well. Resolves with the function that stops it.
 */
export async function listenTo(
  sql: postgres.Sql,
  channel: string,
  onNotice: (payload: string) => void,
): Promise<() => Promise<void>> {
  let active = true
  const listening = await sql.listen(channel, (payload) => {
    if (active) onNotice(payload)
  })
  return async () => {
    active = false
    await listening.unlisten().catch(() => {})
  }
}
