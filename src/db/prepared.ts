import type { SQL } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'
import type { Sql } from 'postgres'
import type { Database } from './client.ts'

/** A database, a transaction, or `prepared`. */
export type Executor = Pick<Database, 'execute'>

const dialect = new PgDialect()

/**
 * Statements that each connection has parsed once and keeps: without this the driver asks the server for the types of the
 * parameters first, each time, which is a second round trip, and the server parses the text again. Only for texts of which
 * there are few, as a connection keeps each that it has met.
 */
export const prepared = (client: Pick<Sql, 'unsafe'>): Executor => ({
  execute: ((query: SQL) => {
    const { sql, params } = dialect.sqlToQuery(query)
    return client.unsafe(sql, params as never[], { prepare: true })
  }) as unknown as Executor['execute'],
})
