import type { PgDatabase } from 'drizzle-orm/pg-core'
import type { PostgresJsQueryResultHKT } from 'drizzle-orm/postgres-js'
import type { Options, Sql } from 'postgres'
import { backoffMs } from '../backoff.ts'
import { descriptors } from '../host/descriptors.ts'
import { secondMs } from '../time.ts'
import { drizzle, postgres } from './driver.ts'
import { tellUnanswered } from './unanswered.ts'

/** The first argument of every query. Both the pool and a transaction have this type. */
export type Database = PgDatabase<PostgresJsQueryResultHKT>

export interface DatabaseOptions {
  /**
   * `postgres://user:password@host:port/name`; `?host=/folder` names the folder of a unix socket, and several hosts with
   * commas between are a primary and its standbys, as in libpq.
   */
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

/** Queries by drizzle, and the driver itself for what drizzle cannot: COPY, prepared statements. */
export type DatabaseAccess = Pick<OpenDatabase, 'db' | 'sql'>

const statementTimeoutMs = 15_000
/** An abandoned transaction would hold its locks and a connection for ever. */
const idleTransactionTimeoutMs = 30_000
const connectTimeoutSeconds = 5
const closeTimeoutSeconds = 5
/** The driver's own delay grows to 20 s, so a database that is back would seem away for that long. */
const reconnects = { firstMs: 20, maxMs: secondMs }
const reconnectSeconds = (attempt: number) => backoffMs(reconnects, attempt + 1) / secondMs

/** Where the driver finds the servers. */
export interface DriverAddress {
  readonly url: string
  /** The folder of a Unix socket, or several servers, each with its port. */
  readonly host?: string
  /** Of several servers the one that takes writes. */
  readonly target_session_attrs?: 'primary'
}

const portDefault = 5432
/** `postgres://user:password@` and the hosts, up to the database's name. */
const authority = /^([a-z]+:\/\/(?:[^/?#]*@)?)([^/?#]+)/
const withPort = /:[0-9]{1,5}$/

/**
 * The driver takes `host` in the query of a URL for a server setting and never looks for a socket there, so a socket
 * folder is moved to the option it does read. Several hosts (`a:5432,b:5432`, as in libpq) go there as well: whatever
 * `target_session_attrs` says, only the one that takes writes is of use, and `read-write` as the driver reads it accepts
 * a standby of PostgreSQL 14 and later.
 */
export function driverAddress(url: string): DriverAddress {
  const hosts = (authority.exec(url)?.[2] ?? '').split(',')
  const first = hosts[0] ?? ''
  const parsed = new URL(hosts.length > 1 ? url.replace(authority, `$1${first.replaceAll('$', '')}`) : url)
  const socket = parsed.searchParams.get('host')
  parsed.searchParams.delete('host')
  parsed.searchParams.delete('target_session_attrs')
  if (socket !== null) return { url: parsed.toString(), host: socket }
  if (hosts.length === 1) return { url }
  const host = hosts.map((text) => (withPort.test(text) ? text : `${text}:${portDefault}`)).join(',')
  return { url: parsed.toString(), host, target_session_attrs: 'primary' }
}

/** An option that only the patched driver has. */
const ownOptions = { onconnecting: () => descriptors.lend() }

/** Makes a client of the driver that ignores notices and bounds every wait. */
export function connect(url: string, options: Options<Record<string, never>>): Sql {
  const { url: first, ...address } = driverAddress(url)
  return postgres(first, {
    ...address,
    connect_timeout: connectTimeoutSeconds,
    backoff: reconnectSeconds,
    // The driver asks for them on every new connection and does not catch a failure of that question: a database cut
    // off at this moment would end the process (seen). No query has an array parameter.
    fetch_types: false,
    onnotice: () => {},
    ...ownOptions,
    ...options,
  })
}

/**
 * A session beside those of this client, whose settings it has, for a lock or a transaction that stays while others work. Its user ends it. A query after its
 * connection was lost opens another one, without what the first one held. The driver's `reserve()` never resolves where the driver has to connect for it
 * (porsager/postgres#1219).
 */
export function sessionOf(sql: Sql): Sql {
  const shared = { retries: 0, typeArrayMap: {} }
  const lasting = { max: 1, idle_timeout: null, max_lifetime: null }
  return postgres({ ...sql.options, shared, ...lasting } as unknown as Options<Record<string, never>>)
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
    db: tellUnanswered(drizzle(sql, { casing: 'snake_case' })),
    sql,
    close: () => sql.end({ timeout: closeTimeoutSeconds }),
  }
}
