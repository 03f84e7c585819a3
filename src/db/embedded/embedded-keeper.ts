import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { descriptors } from '../../host/descriptors.ts'
import type { Place } from './embedded-place.ts'

/** A server whose gateway is gone waits so long for the next one, which takes it over, s. */
export const orphanGraceSecondsDefault = 30
/** A fast shut-down may take so long before a hard one follows, s. Together with the grace: less than a minute. */
const stopSeconds = 20
/** A keeper that was killed is started again, but not more often, ms. */
const restartMs = 30_000
/** The pipe, and what starting a program takes. */
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

/** Ends the server of a gateway that was killed and that nobody starts again. */
export interface Keeper {
  /** Call now and then: starts the keeper again when it was killed. */
  look(): void
  /** The gateway ends its server by itself. */
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
    // A session of its own: Ctrl-C in a terminal reaches the whole group of the gateway.
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
