import { type SQL, sql } from 'drizzle-orm'
import type { Database } from './client.ts'

/**
 * The rows of a query in pieces, so that no list of any length stands in one answer. Needs a transaction, in which one
 * runs at a time; the query has no parameters.
 */
export async function* inPieces<T>(tx: Database, query: SQL, rowsAtOnce: number): AsyncGenerator<readonly T[]> {
  await tx.execute(sql`declare pieces no scroll cursor for ${query}`)
  for (let more = true; more; ) {
    const rows: readonly Record<string, unknown>[] = await tx.execute(sql.raw(`fetch ${rowsAtOnce} from pieces`))
    more = rows.length === rowsAtOnce
    yield rows as readonly T[]
  }
  await tx.execute(sql`close pieces`)
}
