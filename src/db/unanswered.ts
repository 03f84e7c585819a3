import type { PgDatabase } from 'drizzle-orm/pg-core'
import type { PostgresJsQueryResultHKT } from 'drizzle-orm/postgres-js'

/** By the object of a transaction. */
const waiting = new WeakMap<object, (() => void)[]>()

/**
 * Calls `then` if `tx` was asked to commit and the answer is an error. The connection may have broken on the way, so whether it was
 * committed is unknown. `tx` is a transaction of a database that `openDatabase` opened; savepoints within it are not told.
 */
export function ifUnanswered(tx: object, then: () => void): void {
  const before = waiting.get(tx)
  if (before === undefined) waiting.set(tx, [then])
  else before.push(then)
}

/** Makes the transactions of `db` keep what `ifUnanswered` promises. */
export function tellUnanswered<Pool extends PgDatabase<PostgresJsQueryResultHKT>>(db: Pool): Pool {
  const begin = db.transaction.bind(db)
  db.transaction = async (run, config) => {
    let asked: object | null = null
    try {
      return await begin(async (tx) => {
        const result = await run(tx)
        asked = tx
        return result
      }, config)
    } catch (error) {
      for (const then of (asked === null ? null : waiting.get(asked)) ?? []) then()
      throw error
    }
  }
  return db
}
