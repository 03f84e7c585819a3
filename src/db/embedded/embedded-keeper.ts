import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { descriptors } from '../../host/descriptors.ts'
import { findBinaries } from './embedded-binaries.ts'
import { ownServer } from './own-server.ts'
import type { Place } from './server-system.ts'

/** How long a server without a gateway waits for the next gateway, which takes it over, s. */
export const orphanGraceSecondsDefault = 30
/** How long a fast shutdown may take before a hard one follows, s. With the grace time it is less than a minute. */
const stopSeconds = 20
/** A keeper that was killed is started again, but not more often, ms. */
const restartMs = 30_000
/** Descriptors for the pipe and for starting a program. */
const launchDescriptors = 8

/** Stops the server of a gateway that was killed and not started again. */
export interface Keeper {
  /** Call it regularly. It starts the keeper again if somebody killed it. */
  look(): void
  /** The gateway stops its server itself. */
  stop(): void
}

/** Call before the server is started or taken over: from then on no earlier keeper ends it. */
export function startKeeper(place: Place, graceSeconds: number): Keeper {
  const wordFile = join(place.root, 'postgres-keeper')
  const word = randomBytes(16).toString('hex')
  writeFileSync(wordFile, `${word}\n`, { mode: 0o600 })
  const kept = { place, wordFile, word, graceSeconds, stopSeconds }
  const { command, args, cwd, env } = ownServer.keeper(kept, () => findBinaries(place.account, place.copiesFolder))
  let startedMs = Number.NEGATIVE_INFINITY
  let child: ChildProcess | null = null
  const start = () => {
    startedMs = performance.now()
    descriptors.lend(launchDescriptors)
    // The keeper has its own session, because Ctrl-C in a terminal reaches the gateway's whole process group.
    const started = spawn(command, [...args], {
      cwd,
      env,
      detached: true,
      windowsHide: true,
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
