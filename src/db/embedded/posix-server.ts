import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, chownSync, closeSync, existsSync, lstatSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Account } from './embedded-account.ts'
import { absent, databaseUrlHint, EmbeddedDatabaseError } from './embedded-fault.ts'
import type { Kept, Place, ServerSystem } from './server-system.ts'

/** `sun_path` holds 104 bytes on macOS, 108 on Linux, one of them the closing zero. */
const socketPathBytesMax = 103

/** Gives a folder to the account, and closes it to all others as `mode` says. */
export function give(path: string, account: Account | null, mode: number): void {
  if (account !== null) chownSync(path, account.uid, account.gid)
  chmodSync(path, mode)
}

/** What a program is started with to run as the server's user. */
export const identity = ({ account }: Pick<Place, 'account'>): { uid?: number; gid?: number } =>
  account === null ? {} : { uid: account.uid, gid: account.gid }

function makeSocketFolder(home: string, account: Account | null): string {
  const near = join(home, 'socket')
  // The path does not use $TMPDIR, because the next start must find the same folder to take the server over.
  const short = join('/tmp', `penstock-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`)
  const folder = [near, short].find((path) => Buffer.byteLength(join(path, '.s.PGSQL.5432')) <= socketPathBytesMax)
  if (folder === undefined) throw new EmbeddedDatabaseError('Every possible path of the socket is too long.')
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 })
  const { uid } = lstatSync(folder)
  if (!lstatSync(folder).isDirectory() || (uid !== process.getuid?.() && uid !== account?.uid)) {
    throw new EmbeddedDatabaseError(`${folder} belongs to another user. ${databaseUrlHint}`)
  }
  give(folder, account, 0o700)
  return folder
}

function commandLine(pid: number): string {
  if (process.platform !== 'linux') {
    return spawnSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout ?? ''
  }
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch (error) {
    return absent(error) ?? ''
  }
}

/**
 * The gateway holds the other end of standard input and never writes: `read` returns when the gateway is gone, whatever
 * ended it. No process id is looked at for this, which another process could have by then. A gateway that has come in the
 * meantime has written another word, and its own keeper watches.
 */
const keeperScript = `
ours() {
  grep -qF -- "$DATA" "/proc/$1/cmdline" 2>/dev/null || ps -ww -o args= -p "$1" 2>/dev/null | grep -qF -- "$DATA"
}
read -r nothing
sleep "$GRACE"
[ "$(cat "$WORD_FILE" 2>/dev/null)" = "$WORD" ] || exit 0
pid=$(head -n 1 "$DATA/postmaster.pid" 2>/dev/null)
[ -n "$pid" ] && ours "$pid" || exit 0
kill -INT "$pid"
left=$STOP
while ours "$pid"; do
  [ "$left" -gt 0 ] || { kill -QUIT "$pid"; exit 0; }
  left=$((left - 1))
  sleep 1
done
`

function keeper({ place, wordFile, word, graceSeconds, stopSeconds }: Kept) {
  const env = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', DATA: place.data, WORD_FILE: wordFile }
  const times = { GRACE: String(graceSeconds), STOP: String(stopSeconds) }
  return { command: '/bin/sh', args: ['-c', keeperScript], cwd: '/', env: { ...env, WORD: word, ...times } }
}

const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** A socket that only this user and the server's can open, signals, and a user of the server's own where we are root. */
export const posixServer: ServerSystem = {
  env: () => env,
  reach: (_root, home, account) => ({ socketFolder: makeSocketFolder(home, account) }),
  settle: ({ reach }) => reach,
  settings: (reach) =>
    'socketFolder' in reach
      ? { listen_addresses: '', unix_socket_directories: reach.socketFolder, unix_socket_permissions: '0700' }
      : {},
  isServer: (pid, place) => commandLine(pid).includes(place.data),
  launch: (place, binaries, args) => {
    const log = openSync(place.logFile, 'a', 0o600)
    try {
      return spawn(binaries.postgres, ['-D', place.data, ...args], {
        ...identity(place),
        cwd: place.home,
        env,
        // Ctrl-C in a terminal reaches the whole process group, and the gateway must still write while it stops.
        detached: true,
        stdio: ['ignore', log, log],
      })
    } finally {
      closeSync(log)
    }
  },
  end: (pid, how) => {
    process.kill(pid, how === 'fast' ? 'SIGINT' : 'SIGQUIT')
  },
  meaning: () => null,
  keeper,
}
