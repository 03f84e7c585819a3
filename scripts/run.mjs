// Runs a program to its end in the place of this one.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
const ignoredSignalMs = 100

export function fail(message, code = 1) {
  process.stderr.write(`${message}\n`)
  process.exit(code)
}

/** Signals to this process go to the program. */
export function run(command, args, options) {
  return new Promise((resolved) => {
    let child = null
    let early = null
    const forward = (signal) => {
      if (child === null) early = signal
      else child.kill(signal)
    }
    // Before the start: a quick program is up before this process runs on, and a signal would leave it an orphan (seen).
    for (const signal of signals) process.on(signal, forward)
    const done = (end) => {
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
