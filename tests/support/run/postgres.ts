import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type postgres from 'postgres'
import { connect, type Database, openDatabase } from '../../../src/db/client.ts'
import { migrateDatabase, migrationsFolder } from '../../../src/db/migrate.ts'
import { ensureAuditPartitions } from '../../../src/db/queries/audit/audit-events.ts'
import { keepRequestRecords } from '../../../src/db/queries/requests/request-records.ts'

/** Set by `scripts/test.ts`, which starts one server for the whole run. */
export const testServerVariable = 'PENSTOCK_TEST_DATABASE_URL'
const templateLockKey = 7_413_001
/** As a gateway makes them: of requests days, of the audit weeks. */
const daysAheadMs = 2 * 86_400_000
const weeksAheadMs = 28 * 86_400_000

export interface TestDatabase {
  /** For `openDatabase`, or as `DATABASE_URL` of a gateway in its own process. */
  readonly url: string
  readonly db: Database
  readonly sql: postgres.Sql
  /** Closes the connections and removes the database, whoever else is connected to it. */
  drop(): Promise<void>
}

/** The process that all processes of this run come from: one of several workers is a child of it. */
const runPid = () => (process.env.BUN_TEST_WORKER_ID === undefined ? process.pid : process.ppid)

/** By hand (`bun test`): the first who needs a server starts it, and it ends with the run. */
async function serverUrl(): Promise<string> {
  const given = process.env[testServerVariable]
  if (given !== undefined && given !== '') return given
  const program = fileURLToPath(new URL('./test-server.ts', import.meta.url))
  const starter = Bun.spawn([process.execPath, program, String(runPid())], { stdio: ['ignore', 'pipe', 'inherit'] })
  const url = (await new Response(starter.stdout).text()).trim()
  if ((await starter.exited) !== 0) throw new Error('the test server does not start')
  process.env[testServerVariable] = url
  return url
}

function withName(url: string, name: string): string {
  const parsed = new URL(url)
  parsed.pathname = `/${name}`
  return parsed.toString()
}

function migrationsDigest(): string {
  const hash = createHash('sha256')
  for (const file of readdirSync(migrationsFolder)
    .filter((name) => name.endsWith('.sql'))
    .sort()) {
    hash.update(file).update(readFileSync(join(migrationsFolder, file)))
  }
  return hash.digest('hex').slice(0, 16)
}

/** Which databases the others are copied from: as the migrations leave one, and as the first gateway that started leaves one. */
type Kind = 'migrated' | 'started'

/** The tables of the next days and weeks: to make them takes 20 ms of processor time, and to copy them nearly nothing. */
async function makeDays(url: string): Promise<void> {
  const { db, close } = openDatabase({ url, connectionsMax: 1 })
  const now = Date.now()
  await ensureAuditPartitions(db, new Date(now), new Date(now + weeksAheadMs))
  await keepRequestRecords(db, new Date(now), new Date(now + daysAheadMs), new Date(now))
  await close()
}

/** One database per state of the migrations and kind, from which the others are copied. */
async function ensureTemplate(admin: postgres.Sql, url: string, kind: Kind): Promise<string> {
  const name = `template_${kind}_${migrationsDigest()}`
  const building = `${name}_building`
  await admin.begin(async (locked) => {
    await locked`select pg_advisory_xact_lock(${templateLockKey})`
    if ((await locked`select 1 from pg_database where datname = ${name}`).length > 0) return
    await admin.unsafe(`drop database if exists ${building} with (force)`)
    await admin.unsafe(`create database ${building}`)
    await migrateDatabase(withName(url, building))
    if (kind === 'started') await makeDays(withName(url, building))
    await admin.unsafe(`alter database ${building} rename to ${name}`)
  })
  return name
}

/** What a run that was killed left behind. */
async function dropAbandoned(admin: postgres.Sql): Promise<void> {
  for (const { datname } of await admin<
    { datname: string }[]
  >`select datname from pg_database where datname like 'test\\_%'`) {
    const pid = Number(datname.split('_')[1])
    try {
      process.kill(pid, 0)
    } catch {
      await admin.unsafe(`drop database if exists ${datname} with (force)`)
    }
  }
}

interface Server {
  readonly url: string
  readonly admin: postgres.Sql
  /** By kind, made when the first copy is asked for. */
  readonly templates: Map<Kind, Promise<string>>
}

let server: Promise<Server> | null = null
let made = 0

async function openServer(): Promise<Server> {
  const url = await serverUrl()
  const admin = connect(url, { max: 2, idle_timeout: 1 })
  await dropAbandoned(admin)
  return { url, admin, templates: new Map() }
}

/** A fresh database of a real PostgreSQL (about 30 ms). Call `drop` when done. `kind`: migrated, unless given. */
export async function testDatabase(
  options: { readonly connectionsMax?: number; readonly kind?: Kind } = {},
): Promise<TestDatabase> {
  server ??= openServer()
  const { url: serverAddress, admin, templates } = await server
  const { kind = 'migrated' } = options
  if (!templates.has(kind)) templates.set(kind, ensureTemplate(admin, serverAddress, kind))
  const template = await templates.get(kind)
  const name = `test_${process.pid}_${made++}_${Math.random().toString(36).slice(2, 8)}`
  // Files are copied: what is written by pages to the log first takes twice as long.
  await admin.unsafe(`create database ${name} template ${template} strategy file_copy`)
  const url = withName(serverAddress, name)
  const { db, sql } = openDatabase({ url, connectionsMax: options.connectionsMax ?? 4 })
  return {
    url,
    db,
    sql,
    drop: async () => {
      await sql.end({ timeout: 1 })
      await admin.unsafe(`drop database if exists ${name} with (force)`)
    },
  }
}

/** An empty database without any table, for tests of the migrations themselves. */
export async function emptyDatabase(): Promise<{ readonly url: string; drop(): Promise<void> }> {
  server ??= openServer()
  const { url, admin } = await server
  const name = `test_${process.pid}_${made++}_${Math.random().toString(36).slice(2, 8)}`
  await admin.unsafe(`create database ${name}`)
  return {
    url: withName(url, name),
    drop: async () => {
      await admin.unsafe(`drop database if exists ${name} with (force)`)
    },
  }
}
