import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { waitFor } from './gateway.ts'

/** `npm start` as an operator runs it, in a process group of its own, as a terminal makes one. */
export interface NpmStart {
  readonly pid: number
  /** Both streams, so far. */
  output(): string
  /** Resolves when the welcome is printed; rejects when the program ends before. */
  ready(): Promise<void>
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null }>
  /** To npm alone, as a supervisor does. */
  kill(signal: NodeJS.Signals): void
  /** To the whole group, as Ctrl-C in a terminal does. */
  killGroup(signal: NodeJS.Signals): void
}

export interface StartFrom {
  /** Another folder than this checkout. */
  readonly checkout?: string
  /** Longer than a test usually waits. */
  readonly withinMs?: number
}

const root = resolve(import.meta.dir, '../../..')

/** What a shell of a new user has; nothing of the test's own settings. */
const plain = () => ({ PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/', LANG: 'C.UTF-8' })

export function npmStart(env: Readonly<Record<string, string>>, from: StartFrom = {}): NpmStart {
  const { checkout = root, withinMs } = from
  const child = spawn('npm', ['start'], {
    cwd: checkout,
    env: { ...plain(), ...env },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  let ended = false
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (part) => (text += part))
  const exited = new Promise<{ code: number | null; signal: string | null }>((done) => {
    child.on('close', (code, signal) => {
      ended = true
      done({ code, signal })
    })
  })
  const pid = child.pid ?? 0
  return {
    pid,
    output: () => text,
    exited,
    ready: async () => {
      await waitFor('npm start', () => ended || /is ready\n[\s\S]*\n\n/.test(text), withinMs)
      if (ended) throw new Error(`npm start ended: ${text}`)
    },
    kill: (signal) => child.kill(signal),
    killGroup: (signal) => process.kill(-pid, signal),
  }
}

/** True when the port can be taken. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const server = createServer().once('error', () => done(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => done(true)))
  })
}

/** What has ended and was not yet collected by its parent is not alive, and neither is one that is collected between the two looks. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !existsSync('/proc/self') || !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Process ids of the gateway and of its embedded PostgreSQL; null where there is none. */
export function processesOf(dataDir: string): { readonly gateway: number | null; readonly postmaster: number | null } {
  const read = (file: string) => {
    try {
      const pid = Number(readFileSync(join(dataDir, file), 'utf8').split('\n')[0])
      return pid > 0 && isAlive(pid) ? pid : null
    } catch {
      return null
    }
  }
  return { gateway: read('gateway.pid'), postmaster: read('postgres/data/postmaster.pid') }
}
