import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { descriptors } from '../../host/descriptors.ts'
import type { Place } from './embedded-place.ts'

/** How long a server without a gateway waits for the next gateway, which takes it over, s. */
export const orphanGraceSecondsDefault = 30
/** How long a fast shutdown may take before a hard one follows, s. With the grace time it is less than a minute. */
const stopSeconds = 20
/** A keeper that was killed is started again, but not more often, ms. */
const restartMs = 30_000
/** Descriptors for the pipe and for starting a program. */
const launchDescriptors = 8

/**
 * The gateway holds the other end of standard input and never writes: `read` returns when the gateway is gone, whatever
 * ended it. No process id is looked at for this, which another process could have by then. A gateway that has come in the
 * meantime has written another word, and its own keeper watches.
 */
const script = `
ours() {
  grep -qF -- "$DATA" "/proc/$1/cmdline" 2>/dev/null || ps -ww -o args= -p "$1" 2>/dev/null | grep -qF -- "$DATA"
}
read -r nothing
sleep "$GRACE"
[ "$(cat "$WORD_FILE" 2>/dev/null)" = "$WORD" ] || exit 0
pid=$(head -n 1 "$DATA/postmaster.pid" 2>/dev/null)
[ -n "$pid" ] && ours "$pid" || exit 0
kill -INT "$pid"
left=${stopSeconds}
while ours "$pid"; do
  [ "$left" -gt 0 ] || { kill -QUIT "$pid"; exit 0; }
  left=$((left - 1))
  sleep 1
done
`

/** Stops the server of a gateway that was killed and not started again. */
export interface Keeper {
  /** Call it regularly. It starts the keeper again if somebody killed it. */
  look(): void
  /** The gateway stops its server itself. */
  stop(): void
}

/** Call before the server is started or taken over: from then on no earlier keeper ends it. */
export function startKeeper(place: Place, dataDir: string, graceSeconds: number): Keeper {
  const wordFile = join(dataDir, 'postgres-keeper')
  const word = randomBytes(16).toString('hex')
  writeFileSync(wordFile, word, { mode: 0o600 })
  let startedMs = Number.NEGATIVE_INFINITY
  let child: ChildProcess | null = null
  const start = () => {
    startedMs = performance.now()
    descriptors.lend(launchDescriptors)
    // The keeper has its own session, because Ctrl-C in a terminal reaches the gateway's whole process group.
    const started = spawn('/bin/sh', ['-c', script], {
      cwd: '/',
      env: {
        PATH: process.env.PATH ?? '/usr/bin:/bin',
        LC_ALL: 'C',
        DATA: place.data,
        WORD_FILE: wordFile,
        WORD: word,
        GRACE: String(graceSeconds),
      },
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    started.on('error', () => {})
    started.stdin?.on('error', () => {})
    started.unref()
    child = started
  }
  const ended = () => child === null || child.exitCode !== null || child.signalCode !== null || child.pid === undefined
  start()
  return {
    look: () => {
      if (ended() && performance.now() - startedMs >= restartMs) start()
    },
    stop: () => {
      child?.kill('SIGKILL')
    },
  }
}
