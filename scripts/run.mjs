// Runs a program to its end in the place of this one.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
const ignoredSignalMs = 100
const parentLookMs = 500
/** A terminal of Windows tells each of its programs that it is to end; to send a signal to one there ends it at once. */
const signalsReachAll = process.platform === 'win32'

/** What Bun and its allocator read before any code of ours runs; `src/host/bun-settings.ts` says why. What is set already counts. */
const bunSettings = { BUN_CONFIG_MAX_HTTP_REQUESTS: '65535', MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '10000' }
export const bunEnvironment = () => {
  const given = Object.entries(process.env).filter(([name, value]) => value !== '' || !(name in bunSettings))
  return { ...bunSettings, ...Object.fromEntries(given) }
}

export function fail(message, code = 1) {
  process.stderr.write(`${message}\n`)
  process.exit(code)
}

/** Outside of a terminal SIGHUP asks for new processes in the place of those that run. */
const ends = (signal) => signal !== 'SIGHUP' || process.stdin.isTTY || process.stdout.isTTY

/**
 * Signals to this process go to the program. `parent`: the process id of a parent without which the program is to end, also where
 * that is killed and cannot say so.
 */
export function run(command, args, { parent = null, ...options }) {
  return new Promise((resolved) => {
    let child = null
    let early = null
    let ending = false
    const forward = (signal) => {
      ending ||= ends(signal)
      if (signalsReachAll) return
      if (child === null) early = signal
      else child.kill(signal)
    }
    const look = () => {
      // A program that is told again that it is to end, ends at once.
      if (process.ppid !== parent && !ending) forward('SIGTERM')
    }
    const looking = parent === null ? null : setInterval(look, parentLookMs)
    // Before the start: a quick program is up before this process runs on, and a signal would leave it an orphan (seen).
    for (const signal of signals) process.on(signal, forward)
    const done = (end) => {
      clearInterval(looking)
      for (const signal of signals) process.off(signal, forward)
      resolved(end)
    }
    child = spawn(command, args, options)
    child.on('error', (error) => done({ code: 1, signal: null, error }))
    child.on('exit', (code, signal) => done({ code, signal, error: null }))
    if (early !== null) child.kill(early)
  })
}

/** Ends this process as the child ended, which is what a shell expects. */
export function endBy(signal) {
  process.kill(process.pid, signal)
  // For a signal that is ignored here.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), ignoredSignalMs)
  return new Promise(() => {})
}
