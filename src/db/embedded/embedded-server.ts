import { type ChildProcess, spawnSync } from 'node:child_process'
import { chownSync, existsSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { holdsWithin } from '../../deadline.ts'
import { descriptors } from '../../host/descriptors.ts'
import { findBinaries } from './embedded-binaries.ts'
import { absent, databaseUrlHint, EmbeddedDatabaseError } from './embedded-fault.ts'
import { ownServer } from './own-server.ts'
import { identity } from './posix-server.ts'
import type { Binaries, Place } from './server-system.ts'

export const superuser = 'penstock'

export interface ServerOptions {
  readonly connectionsMax: number
  /** False only in tests. A crash of the computer may then lose or damage the data. */
  readonly durable: boolean
}

/** Crash recovery reads the whole log since the last checkpoint. */
const startWaitMs = 60_000
const fastStopWaitMs = 10_000
const immediateStopWaitMs = 5_000
const pollMs = 10
/** Descriptors for the log and for starting a program. */
const launchDescriptors = 6
const logBytesMax = 1024 * 1024
/** A process id above the largest one of every system, so no process has it. */
const impossiblePid = 2_147_483_647

interface PidFile {
  readonly pid: number
  readonly status: string
}

function readPidFile(place: Place): PidFile | null {
  try {
    const lines = readFileSync(join(place.data, 'postmaster.pid'), 'utf8').split('\n')
    const pid = Number(lines[0])
    return pid > 0 ? { pid, status: (lines[7] ?? '').trim() } : null
  } catch (error) {
    return absent(error)
  }
}

/** The server's process id while it runs; null when it does not. */
export function runningServer(place: Place): number | null {
  const file = readPidFile(place)
  return file !== null && ownServer.isServer(file.pid, place) ? file.pid : null
}

function initialise(place: Place, binaries: Binaries, options: ServerOptions): void {
  const fresh = `${place.data}.new`
  const passwordFile = join(place.home, 'initdb-password')
  rmSync(fresh, { recursive: true, force: true })
  rmSync(passwordFile, { force: true })
  writeFileSync(passwordFile, place.password, { mode: 0o600, flag: 'wx' })
  if (place.account !== null) chownSync(passwordFile, place.account.uid, place.account.gid)
  const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
  const access = ['--auth=scram-sha-256', `--username=${superuser}`, `--pwfile=${passwordFile}`]
  const result = spawnSync(
    binaries.initdb,
    ['-D', fresh, ...locale, ...access, '--no-instructions', ...(options.durable ? [] : ['--no-sync'])],
    { ...identity(place), cwd: place.home, env: ownServer.env(), encoding: 'utf8' },
  )
  rmSync(passwordFile, { force: true })
  if (result.status !== 0) {
    const reason = result.error?.message ?? ownServer.meaning(result.status) ?? lastLine(result.stderr ?? '')
    throw new EmbeddedDatabaseError(
      `The gateway cannot set up the embedded PostgreSQL here: ${reason}. ${databaseUrlHint}`,
    )
  }
  // The folder gets its final name only when it is complete, so an interrupted set-up is repeated.
  renameSync(fresh, place.data)
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.trim() ?? ''
}

function serverArguments(place: Place, options: ServerOptions): string[] {
  const settings = {
    ...ownServer.settings(place.reach),
    max_connections: String(options.connectionsMax),
    fsync: options.durable ? 'on' : 'off',
    synchronous_commit: options.durable ? 'on' : 'off',
    full_page_writes: options.durable ? 'on' : 'off',
    // Statements and the keys in their error details stay out of the log (§18).
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    log_checkpoints: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // All statements are short, so JIT and parallel workers do not pay off. Parallel workers also need /dev/shm, which
    // has 64 MB in containers.
    jit: 'off',
    max_parallel_workers_per_gather: '0',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

function launch(place: Place, binaries: Binaries, options: ServerOptions): ChildProcess {
  if (existsSync(place.logFile) && statSync(place.logFile).size > logBytesMax) truncateSync(place.logFile)
  const child = ownServer.launch(place, binaries, serverArguments(place, options))
  child.on('error', () => {})
  child.unref()
  return child
}

/**
 * The old server's process id now belongs to another process, so PostgreSQL would refuse to start. Its other checks
 * remain.
 */
function disownPidFile(place: Place): void {
  const file = join(place.data, 'postmaster.pid')
  if (!existsSync(file)) return
  const [, ...rest] = readFileSync(file, 'utf8').split('\n')
  writeFileSync(file, [impossiblePid, ...rest].join('\n'))
}

/** Waits for a server that starts or stops. Returns true if it is ready and false if it is gone. */
async function becomesReady(place: Place, child: ChildProcess | null): Promise<boolean> {
  const deadline = performance.now() + startWaitMs
  while (performance.now() < deadline) {
    const file = readPidFile(place)
    if (file !== null && ownServer.isServer(file.pid, place)) {
      if (file.status === 'ready') return true
    } else if (child === null || child.exitCode !== null || child.signalCode !== null || child.pid === undefined)
      return false
    await Bun.sleep(pollMs)
  }
  throw new EmbeddedDatabaseError(
    `The embedded PostgreSQL is not ready after ${startWaitMs / 1000} s. See ${place.logFile}.`,
  )
}

/** True when it runs, as soon as it accepts connections. */
export async function isServing(place: Place): Promise<boolean> {
  return runningServer(place) !== null && (await becomesReady(place, null))
}

/** Makes the server run and accept connections: reuses the one that runs, starts it otherwise. Call under the lock. */
export async function ensureServer(place: Place, options: ServerOptions): Promise<'started' | 'reused'> {
  if (await isServing(place)) return 'reused'
  const binaries = findBinaries(place.account, place.copiesFolder)
  if (!existsSync(place.data)) initialise(place, binaries, options)
  disownPidFile(place)
  descriptors.lend(launchDescriptors)
  const child = launch(place, binaries, options)
  if (await becomesReady(place, child)) return 'started'
  const reason = existsSync(place.logFile) ? lastLine(readFileSync(place.logFile, 'utf8')) : ''
  throw new EmbeddedDatabaseError(
    `The embedded PostgreSQL does not start: ${reason} (${place.logFile}). ${databaseUrlHint}`,
  )
}

const gone = (place: Place, pid: number, waitMs: number) =>
  holdsWithin(waitMs, pollMs, () => !ownServer.isServer(pid, place))

/** Stops the server fast, or hard if that takes too long. The next start recovers from a hard stop. */
export async function stopServer(place: Place): Promise<void> {
  const pid = runningServer(place)
  if (pid === null) return
  const binaries = () => findBinaries(place.account, place.copiesFolder)
  ownServer.end(pid, 'fast', binaries)
  if (await gone(place, pid, fastStopWaitMs)) return
  ownServer.end(pid, 'immediate', binaries)
  await gone(place, pid, immediateStopWaitMs)
}
