import { afterAll, expect, test } from 'bun:test'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '../../src/db/client.ts'
import { EmbeddedDatabaseError, startEmbedded } from '../../src/db/embedded/embedded.ts'
import { canRead } from '../../src/db/embedded/embedded-account.ts'
import { findBinaries } from '../../src/db/embedded/embedded-binaries.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const root = process.getuid?.() === 0
const nobody = { uid: 65_534, gid: 65_534 }
const scratch = mkdtempSync(join(tmpdir(), 'pe-'))
chmodSync(scratch, 0o755)
const children: ChildProcess[] = []
afterAll(async () => {
  for (const child of children) await ended(child, 'SIGTERM')
  rmSync(scratch, { recursive: true, force: true })
})

const silent = { info: () => {}, warn: () => {} }
const quick = { log: silent, durable: false, preferNobody: true }
const childProgram = join(import.meta.dir, '../support/run/embedded-child.ts')

let template: Promise<string> | null = null

async function makeTemplate(): Promise<string> {
  const dataDir = join(scratch, 'template')
  await (await startEmbedded({ ...quick, dataDir })).stop()
  return dataDir
}

/** A data folder as a first start leaves it, for what is not about first starts: those take a second of CPU each. */
async function usedFolder(name: string): Promise<string> {
  template ??= makeTemplate()
  const dataDir = join(scratch, name)
  const copied = spawnSync('cp', ['-a', await template, dataDir], { stdio: 'inherit' })
  if (copied.status !== 0) throw new Error('the data folder was not copied')
  return dataDir
}

interface ChildReport {
  readonly url?: string
  readonly events?: readonly string[]
  readonly error?: string
}

/** Starts a supervisor in a process of its own; resolves with its first line. */
async function superviseElsewhere(
  dataDir: string,
  as?: typeof nobody,
): Promise<{ child: ChildProcess; report: ChildReport }> {
  const child = spawn(process.execPath, [childProgram, dataDir], {
    ...as,
    cwd: scratch,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  const line = await new Promise<string>((resolve) => {
    let text = ''
    child.stdout?.on('data', (chunk) => {
      text += chunk
      if (text.includes('\n')) resolve(text)
    })
    child.on('exit', () => resolve(text || '{"error":"no output"}'))
  })
  return { child, report: JSON.parse(line) as ChildReport }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = new Promise((resolve) => child.once('exit', resolve))
  child.kill(signal)
  await exit
}

async function ask<T extends object>(url: string, query: string): Promise<T | undefined> {
  const sql = connect(url, { max: 1 })
  try {
    return (await sql.unsafe(query))[0] as T | undefined
  } finally {
    await sql.end({ timeout: 1 })
  }
}

function runs(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const serverPid = (dataDir: string) =>
  Number(readFileSync(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8').split('\n')[0])

test('§25: fsync on, no TCP, a password over a 0700 socket folder; nothing runs after stop', async () => {
  const dataDir = join(scratch, 'first')
  const database = await startEmbedded({ ...quick, dataDir, durable: true })
  const settings = await ask(
    database.url,
    `select current_setting('fsync') as fsync, current_setting('listen_addresses') as listen`,
  )
  expect(settings).toEqual({ fsync: 'on', listen: '' })
  const modes = ['postgres', 'postgres/socket', 'postgres/data'].map(
    (path) => statSync(join(dataDir, path)).mode & 0o777,
  )
  expect(modes).toEqual([0o700, 0o700, 0o700])
  expect(statSync(join(dataDir, 'postgres-password')).mode & 0o777).toBe(0o600)
  expect(statSync(dataDir).mode & 0o767).toBe(0o700)
  const wrong = database.url.replace(/:[^:@/]+@/, ':wrong@')
  expect(await ask(wrong, 'select 1').catch((error: { code: string }) => error.code)).toBe('28P01')
  const pid = serverPid(dataDir)
  await database.stop()
  expect(() => serverPid(dataDir)).toThrow()
  // The kernel may take a moment to be done with a process that has ended.
  await waitUntil('its end', () => !runs(pid))
})

test('the log of the server has no statement and none of its values, whatever fails', async () => {
  const dataDir = await usedFolder('quiet')
  const database = await startEmbedded({ ...quick, dataDir })
  const marker = 'nobody-may-read-this'
  for (const query of [
    `select '${marker}' from no_such_table`,
    `select '${marker}'::int`,
    `do $$ begin raise exception '${marker}' using errcode = '22023'; end $$`,
    `create table kept (id text primary key); insert into kept values ('${marker}'), ('${marker}')`,
  ])
    await ask(database.url, query).catch(() => undefined)
  await database.stop()
  const text = readFileSync(join(dataDir, 'postgres.log'), 'utf8')
  expect(text).toContain('database system is shut down')
  expect(text).not.toContain(marker)
  expect(text).not.toContain('no_such_table')
})

test.skipIf(!root)('§25: as root the server runs as another user, without our environment', async () => {
  const dataDir = join(scratch, 'as-root')
  const database = await startEmbedded({ ...quick, dataDir })
  const proc = `/proc/${serverPid(dataDir)}`
  expect(statSync(proc).uid).toBe(nobody.uid)
  expect(readFileSync(`${proc}/status`, 'utf8')).toMatch(/^Groups:\s*$/m)
  expect(readFileSync(`${proc}/environ`, 'utf8')).not.toContain('HOME=')
  await database.stop()
})

test.skipIf(!root || !canRead(process.execPath, nobody) || !canRead(childProgram, nobody))(
  '§25: as an ordinary user the server runs as that user',
  async () => {
    const dataDir = join(scratch, 'as-user')
    mkdirSync(dataDir, { mode: 0o700 })
    chownSync(dataDir, nobody.uid, nobody.gid)
    const { child, report } = await superviseElsewhere(dataDir, nobody)
    expect(report.error).toBeUndefined()
    expect(statSync(join(dataDir, 'postgres/data')).uid).toBe(nobody.uid)
    expect(statSync(dataDir).mode & 0o777).toBe(0o700)
    await ended(child, 'SIGTERM')
    expect(child.exitCode).toBe(0)
  },
)

test.skipIf(!root)('§25: below a 0700 folder of root the data stands where its user can reach it', async () => {
  const closed = join(scratch, 'closed')
  mkdirSync(closed, { mode: 0o700 })
  const dataDir = join(closed, 'data')
  const database = await startEmbedded({ ...quick, dataDir })
  const home = realpathSync(join(dataDir, 'postgres'))
  expect(home.startsWith('/var/lib/penstock/')).toBe(true)
  expect(await ask(database.url, 'select 1 as one')).toEqual({ one: 1 })
  await database.stop()
  rmSync(home, { recursive: true })
})

test('§25: a path too long for a socket gets a short one elsewhere', async () => {
  const dataDir = await usedFolder('long-'.padEnd(120, 'x'))
  const database = await startEmbedded({ ...quick, dataDir })
  expect(await ask(database.url, 'select 1 as one')).toEqual({ one: 1 })
  const folder = new URL(database.url).searchParams.get('host') ?? ''
  expect(statSync(folder).mode & 0o777).toBe(0o700)
  await database.stop()
  expect(() => accessSync(folder)).toThrow()
})

test('§14: after kill -9 of the gateway the server is taken over with all it holds', async () => {
  const dataDir = await usedFolder('killed')
  const { child, report } = await superviseElsewhere(dataDir)
  await ask(report.url ?? '', 'create table kept as select 42 as answer')
  const pid = serverPid(dataDir)
  await ended(child, 'SIGKILL')
  const events: object[] = []
  const database = await startEmbedded({
    ...quick,
    dataDir,
    log: { ...silent, info: (event, fields) => events.push({ event, ...fields }) },
  })
  expect(events).toEqual([{ event: 'embedded_database_ready', how: 'reused' }])
  expect(serverPid(dataDir)).toBe(pid)
  expect(await ask(database.url, 'select answer from kept')).toEqual({ answer: 42 })
  await database.stop()
})

test('a second gateway on one data folder is refused with the process of the first', async () => {
  const dataDir = await usedFolder('shared')
  const { child } = await superviseElsewhere(dataDir)
  const refusal = await startEmbedded({ ...quick, dataDir }).catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(EmbeddedDatabaseError)
  expect(String(refusal)).toContain(`process ${child.pid}`)
  await ended(child, 'SIGTERM')
  const database = await startEmbedded({ ...quick, dataDir })
  await database.stop()
})

test('a process id file whose process is now a stranger does not stop the start', async () => {
  const dataDir = await usedFolder('stale')
  const { uid, gid } = statSync(join(dataDir, 'postgres/data/PG_VERSION'))
  const stranger = spawn('sleep', ['60'], { uid, gid })
  const file = join(dataDir, 'postgres/data/postmaster.pid')
  writeFileSync(file, `${stranger.pid}\n${join(dataDir, 'postgres/data')}\n0\n5432\n\n\n0 0\nready\n`)
  chownSync(file, uid, gid)
  const database = await startEmbedded({ ...quick, dataDir })
  expect(await ask(database.url, 'select 1 as one')).toEqual({ one: 1 })
  await database.stop()
  await ended(stranger, 'SIGKILL')
})

test('a server that is killed comes back while the gateway runs', async () => {
  const dataDir = await usedFolder('lost')
  const restarted = Promise.withResolvers<void>()
  const info = (event: string) => event === 'embedded_database_restarted' && restarted.resolve()
  const database = await startEmbedded({ ...quick, dataDir, log: { info, warn: () => {} } })
  const pid = serverPid(dataDir)
  process.kill(pid, 'SIGKILL')
  await restarted.promise
  expect(serverPid(dataDir)).not.toBe(pid)
  expect(await ask(database.url, 'select 1 as one')).toEqual({ one: 1 })
  await database.stop()
})

test('where no server fits the platform the error says how to bring one', () => {
  expect(() => findBinaries(null, scratch, 'plan9-mips')).toThrow(EmbeddedDatabaseError)
  expect(() => findBinaries(null, scratch, 'plan9-mips')).toThrow(/plan9-mips.*DATABASE_URL=postgres:/)
})
