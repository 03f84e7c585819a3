import { Database as SqliteFile } from 'bun:sqlite'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { descriptors } from '../../host/descriptors.ts'
import { loop } from '../../host/loop.ts'
import { lockFiles } from '../../host/port-holder.ts'
import { connect } from '../client.ts'
import { EmbeddedDatabaseError } from './embedded-fault.ts'
import { type Keeper, orphanGraceSecondsDefault, startKeeper } from './embedded-keeper.ts'
import { preparePlace } from './embedded-place.ts'
import { ensureServer, isServing, runningServer, type ServerOptions, stopServer, superuser } from './embedded-server.ts'
import { ownServer } from './own-server.ts'
import type { Place } from './server-system.ts'

export { EmbeddedDatabaseError } from './embedded-fault.ts'

interface EmbeddedLog {
  info(event: string, fields?: Readonly<Record<string, string | number>>): void
  warn(event: string, fields?: Readonly<Record<string, string | number>>): void
}

export interface EmbeddedOptions {
  /** Absolute or relative to the working directory; made when absent. */
  readonly dataDir: string
  readonly log: EmbeddedLog
  readonly connectionsMax?: number
  readonly durable?: boolean
  /** How long the server runs after this process was killed if no other process takes it over, s. */
  readonly orphanGraceSeconds?: number
  /** For tests: as root run as `nobody` and make no system user. */
  readonly preferNobody?: boolean
}

export interface EmbeddedDatabase {
  /** For `openDatabase`, with the generated password. */
  readonly url: string
  /** Stops the server and frees the data folder. Close every client first. */
  stop(): Promise<void>
}

/** Another process holds the data folder. */
class FolderInUseError extends EmbeddedDatabaseError {}

const connectionsMaxDefault = 60
const databaseName = 'penstock'
const watchIntervalMs = 1_000
const restartBackoff = { firstMs: 2 * watchIntervalMs, maxMs: 30_000 }

/** `name` of a database of the server, as a URL. */
function urlOf({ reach, password }: Place, name: string): string {
  const user = `${superuser}:${password}`
  if ('port' in reach) return `postgres://${user}@127.0.0.1:${reach.port}/${name}`
  return `postgres://${user}@localhost:5432/${name}?host=${encodeURIComponent(reach.socketFolder)}`
}

/** Of a folder whose lock this process holds. */
function ownPlace(dataDir: string, preferNobody: boolean): Place {
  const place = preparePlace(dataDir, preferNobody)
  return runningServer(place) === null ? { ...place, reach: ownServer.settle(place) } : place
}

/**
 * One gateway per data folder. The lock is the kernel's, through SQLite: it ends with the process whatever ends it, and
 * no race over a stale file is possible. The process id beside it serves the message only.
 */
function lockFolder(dataDir: string): () => void {
  const file = join(dataDir, lockFiles.gateway)
  const holder = join(dataDir, 'gateway.pid')
  const lock = new SqliteFile(file)
  chmodSync(file, 0o600)
  try {
    lock.run('begin exclusive')
  } catch {
    lock.close()
    const pid = existsSync(holder) ? readFileSync(holder, 'utf8').trim() : ''
    throw new FolderInUseError(
      `Another gateway${pid === '' ? '' : ` (process ${pid})`} uses the data folder ${dataDir}. Stop it, or set SVC_DATA_DIR to another folder.`,
    )
  }
  writeFileSync(holder, String(process.pid), { mode: 0o600 })
  return () => lock.close()
}

async function ensureDatabase(place: Place): Promise<void> {
  const sql = connect(urlOf(place, 'postgres'), { max: 1 })
  try {
    const found = await sql`select 1 from pg_database where datname = ${databaseName}`
    if (found.length === 0) await sql.unsafe(`create database ${databaseName}`)
  } catch (error) {
    if ((error as { code?: unknown }).code !== '28P01') throw error
    throw new EmbeddedDatabaseError('The file postgres-password in the data folder does not fit its database.')
  } finally {
    await sql.end({ timeout: 1 })
  }
}

function isGone(place: Place): boolean {
  descriptors.lend()
  try {
    return runningServer(place) === null
  } catch {
    // No file can be read now, so the database's files say nothing.
    return false
  }
}

/**
 * Starts the server again if it ended by itself, e.g. because memory was short. Returns a function that ends the
 * watch.
 */
function watch(place: Place, options: ServerOptions, log: EmbeddedLog, keeper: Keeper): () => Promise<void> {
  const restart = async () => {
    if (!isGone(place)) return
    log.warn('embedded_database_lost')
    await ensureServer(place, options)
    log.info('embedded_database_restarted')
  }
  const keeping = loop({ everyMs: watchIntervalMs, run: () => keeper.look() })
  const watching = loop({
    everyMs: watchIntervalMs,
    run: restart,
    backoff: restartBackoff,
    onFailure: (error, failures) => {
      log.warn('embedded_database_restart_failed', {
        failures,
        error: error instanceof Error ? error.name : typeof error,
      })
    },
  })
  keeping.start()
  watching.start()
  return async () => {
    void keeping.stop()
    await watching.stop()
  }
}

function forgetSocket({ reach, home }: Place): void {
  if ('socketFolder' in reach && !reach.socketFolder.startsWith(home)) {
    rmSync(reach.socketFolder, { recursive: true, force: true })
  }
}

/**
 * Runs PostgreSQL in the data folder, reachable from this computer only. A server that outlived its gateway is
 * taken over as it is. Throws `EmbeddedDatabaseError` with a text for the operator.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const dataDir = resolve(options.dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const server = { connectionsMax: options.connectionsMax ?? connectionsMaxDefault, durable: options.durable ?? true }
  const unlock = lockFolder(dataDir)
  let keeper: Keeper | null = null
  try {
    const place = ownPlace(dataDir, options.preferNobody ?? false)
    keeper = startKeeper(place, options.orphanGraceSeconds ?? orphanGraceSecondsDefault)
    const kept = keeper
    if (place.accountShared) options.log.warn('embedded_database_shared_user', { uid: place.account?.uid ?? 0 })
    const how = await ensureServer(place, server)
    await ensureDatabase(place)
    options.log.info('embedded_database_ready', { how })
    const unwatch = watch(place, server, options.log, kept)
    return {
      url: urlOf(place, databaseName),
      stop: async () => {
        await unwatch()
        await stopServer(place)
        kept.stop()
        forgetSocket(place)
        unlock()
      },
    }
  } catch (error) {
    keeper?.stop()
    unlock()
    throw error
  }
}

/**
 * The database of a folder, whether its gateway runs or not: where one does, its server is used beside it and left alone.
 * Never makes a database. Throws `EmbeddedDatabaseError`.
 */
export async function reachEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const dataDir = resolve(options.dataDir)
  if (!existsSync(join(dataDir, 'postgres'))) {
    throw new EmbeddedDatabaseError(
      `There is no database in ${dataDir}. Set SVC_DATA_DIR to the gateway's data folder, or DATABASE_URL to its database.`,
    )
  }
  try {
    return await startEmbedded(options)
  } catch (error) {
    if (!(error instanceof FolderInUseError)) throw error
    const place = preparePlace(dataDir, options.preferNobody ?? false)
    if (!(await isServing(place))) throw error
    return { url: urlOf(place, databaseName), stop: async () => {} }
  }
}
