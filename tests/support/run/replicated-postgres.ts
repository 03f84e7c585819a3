import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type Database, openDatabase } from '../../../src/db/client.ts'
import { findBinaries } from '../../../src/db/embedded/embedded-binaries.ts'
import { preparePlace } from '../../../src/db/embedded/embedded-place.ts'
import type { Place } from '../../../src/db/embedded/server-system.ts'
import { freePort } from '../gateways/free-port.ts'
import { waitFor } from '../gateways/gateway.ts'

/** A primary and a standby that has every commit before the primary says that it is one. */
export interface ReplicatedPostgres {
  /** Both hosts, and that the one that takes writes is wanted. */
  readonly url: string
  /** `kill -9` of the primary with all that belongs to it, and the standby takes its place. */
  failOver(): Promise<void>
  /** What the server that takes writes has. */
  readonly db: Database
  stop(): Promise<void>
}

const user = 'penstock'
const name = 'penstock'
const standbyName = 'standby'

interface Member {
  readonly place: Place
  readonly port: number
  process: ChildProcess | null
}

const identity = ({ account }: Place) => (account === null ? {} : { uid: account.uid, gid: account.gid })
const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

function memberIn(folder: string, port: number): Member {
  mkdirSync(folder, { mode: 0o711 })
  return { place: preparePlace(folder, true), port, process: null }
}

function binariesOf({ account, copiesFolder }: Place) {
  return findBinaries(account, copiesFolder)
}

function settings({ place, port }: Member, more: Readonly<Record<string, string>>): void {
  const all = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    wal_keep_size: '512MB',
    ...more,
  }
  const lines = Object.entries(all).map(([key, value]) => `${key} = '${value}'`)
  appendFileSync(join(place.data, 'postgresql.conf'), `\n${lines.join('\n')}\n`)
}

function launch(member: Member): void {
  const { place } = member
  // A group of its own: killed with all its children, as a machine that loses its power.
  member.process = spawn(binariesOf(place).postgres, ['-D', place.data], {
    ...identity(place),
    cwd: place.home,
    env,
    detached: true,
    stdio: 'ignore',
  })
}

async function answers(port: number, writes: boolean): Promise<boolean> {
  const sql = connect(`postgres://${user}@127.0.0.1:${port}/postgres`, { max: 1 })
  try {
    const [row] = await sql<{ behind: boolean }[]>`select pg_is_in_recovery() as behind`
    return row?.behind === !writes
  } catch {
    return false
  } finally {
    await sql.end({ timeout: 1 })
  }
}

async function end({ process: child }: Member): Promise<void> {
  if (child === null || child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exited = new Promise((done) => child.once('exit', done))
  process.kill(-child.pid, 'SIGKILL')
  await exited
}

export async function startReplicatedPostgres(): Promise<ReplicatedPostgres> {
  const folder = mkdtempSync(join(realpathSync(existsSync('/dev/shm') ? '/dev/shm' : tmpdir()), 'penstock-pair-'))
  const primary = memberIn(join(folder, 'a'), freePort())
  const standby = memberIn(join(folder, 'b'), freePort())
  const { data, home, account } = primary.place
  const made = spawnSync(
    binariesOf(primary.place).initdb,
    [
      '-D',
      data,
      '--encoding=UTF8',
      '--locale=C',
      '--auth=trust',
      `--username=${user}`,
      '--no-sync',
      '--no-instructions',
    ],
    { ...identity(primary.place), cwd: home, env, encoding: 'utf8' },
  )
  if (made.status !== 0) throw new Error(made.stderr)
  cpSync(data, standby.place.data, { recursive: true, preserveTimestamps: true })
  if (account !== null) spawnSync('chown', ['-R', `${account.uid}:${account.gid}`, standby.place.data])
  settings(primary, { synchronous_standby_names: standbyName })
  settings(standby, {
    primary_conninfo: `host=127.0.0.1 port=${primary.port} user=${user} application_name=${standbyName}`,
  })
  const signal = join(standby.place.data, 'standby.signal')
  writeFileSync(signal, '')
  if (account !== null) chownSync(signal, account.uid, account.gid)
  launch(primary)
  await waitFor('the primary', () => answers(primary.port, true))
  launch(standby)
  await waitFor('the standby', () => answers(standby.port, false))
  const admin = connect(`postgres://${user}@127.0.0.1:${primary.port}/postgres`, { max: 1 })
  await waitFor(
    'their link',
    async () => (await admin`select 1 from pg_stat_replication where sync_state = 'sync'`).length === 1,
  )
  await admin.unsafe(`create database ${name}`)
  await admin.end()
  const url = `postgres://${user}@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/${name}?target_session_attrs=read-write`
  const database = openDatabase({ url, connectionsMax: 2 })
  return {
    url,
    db: database.db,
    failOver: async () => {
      await end(primary)
      const sql = connect(`postgres://${user}@127.0.0.1:${standby.port}/postgres`, { max: 1 })
      await sql`select pg_promote()`
      await sql.end()
    },
    stop: async () => {
      await database.close()
      await end(primary)
      await end(standby)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
