import type { PgDatabase } from 'drizzle-orm/pg-core'
import type { PostgresJsQueryResultHKT } from 'drizzle-orm/postgres-js'
import type { Options, Sql } from 'postgres'
import { descriptors } from '../host/descriptors.ts'
import { drizzle, postgres } from './driver.ts'

/** The first argument of every query. Both the pool and a transaction have this type. */
export type Database = PgDatabase<PostgresJsQueryResultHKT>

export interface DatabaseOptions {
  /** `postgres://user:password@host:port/name`; `?host=/folder` names the folder of a unix socket, as in libpq. */
  readonly url: string
  readonly connectionsMax: number
  readonly statementTimeoutMs?: number
}

export interface OpenDatabase {
  readonly db: Database
  readonly sql: Sql
  /** Waits for running queries, at most 5 s. */
  close(): Promise<void>
}

const statementTimeoutMs = 15_000
/** An abandoned transaction would hold its locks and a connection for ever. */
const idleTransactionTimeoutMs = 30_000
const connectTimeoutSeconds = 5
const closeTimeoutSeconds = 5
/** The driver's own delay grows to 20 s, so a database that is back would seem away for that long. */
const reconnectSeconds = (attempt: number) => Math.min(1, 0.02 * 2 ** attempt)

/**
 * The driver takes `host` in the query of a URL for a server setting and never looks for a socket there, so a socket
 * folder is moved to the option it does read.
 */
export function driverAddress(url: string): { readonly url: string; readonly host?: string } {
  const parsed = new URL(url)
  const host = parsed.searchParams.get('host')
  if (host === null) return { url }
  parsed.searchParams.delete('host')
  return { url: parsed.toString(), host }
}

/** An option that only the patched driver has. */
const ownOptions = { onconnecting: () => descriptors.lend() }

/** Makes a client of the driver that ignores notices and bounds every wait. */
export function connect(url: string, options: Options<Record<string, never>>): Sql {
  const address = driverAddress(url)
  return postgres(address.url, {
    ...(address.host === undefined ? {} : { host: address.host }),
    connect_timeout: connectTimeoutSeconds,
    backoff: reconnectSeconds,
    // The driver asks for them on every new connection and nobody catches a failure of that question: a database cut
    // off at this moment would end the process (seen). No query has an array parameter.
    fetch_types: false,
    onnotice: () => {},
    ...ownOptions,
    ...options,
  })
}

/** Connects at the first query, so an unreachable database shows as a failed query and not as a failed start. */
export function openDatabase(options: DatabaseOptions): OpenDatabase {
  const sql = connect(options.url, {
    max: options.connectionsMax,
    connection: {
      application_name: 'penstock',
      statement_timeout: options.statementTimeoutMs ?? statementTimeoutMs,
      idle_in_transaction_session_timeout: idleTransactionTimeoutMs,
    },
  })
  return {
    db: drizzle(sql, { casing: 'snake_case' }),
    sql,
    close: () => sql.end({ timeout: closeTimeoutSeconds }),
  }
}
