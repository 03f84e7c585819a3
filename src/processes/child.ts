import { join } from 'node:path'
import { bunSettings } from '../host/bun-settings.ts'
import { childVariable } from '../host/port-holder.ts'
import { builtCommand, checkoutRoot } from '../host/program-files.ts'
import { type Assignment, line, linesOf, type Order, Report, readLine, wholeLinesOf } from './messages.ts'
import { StartError } from './start-error.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export interface ChildEnd {
  readonly code: number | null
  readonly signal: string | null
}

/** This program once more: from the checkout, or as it was built. */
function command(): string[] {
  const root = checkoutRoot()
  const kept = process.execArgv.filter((text) => text.startsWith('--config=') || text === '--no-env-file')
  if (root === null) {
    const [program = '', ...words] = builtCommand()
    return [program, ...(words.length === 0 ? [] : kept), ...words, 'serve']
  }
  return [process.execPath, ...kept, join(root, 'src/main.ts')]
}

function environment(env: Environment, index: number): Record<string, string> {
  const inherited = { PATH: process.env.PATH, HOME: process.env.HOME, ...env }
  const set = Object.entries(inherited).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return { ...bunSettings, ...Object.fromEntries(set), [childVariable]: String(index) }
}

/** What a process serves. */
export type Serves = Extract<Report, { port: number }>

/** One process that serves, from its start to its end. */
export class Child {
  /** Rejects with the operator's text when it ends before it serves. */
  readonly ready: Promise<Serves>
  /** Resolves when it takes no more connections. */
  readonly closed: Promise<void>
  readonly exited: Promise<ChildEnd>
  readonly startedMs = performance.now()
  serves = false
  /** It was told to end. */
  leaving = false
  private readonly process: Bun.Subprocess<'pipe', 'pipe', 'pipe'>

  /** `say`: takes the lines of its log, each whole, as the other processes' lines go the same way. */
  constructor(
    readonly assignment: Assignment,
    env: Environment,
    say: (text: string) => void,
  ) {
    this.process = Bun.spawn(command(), {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: environment(env, assignment.index),
    })
    this.write(line(assignment))
    const copied = passOn(this.process.stderr, say)
    this.exited = this.process.exited.then(async () => {
      await copied
      const { exitCode: code, signalCode } = this.process
      return { code, signal: signalCode === null ? null : String(signalCode) }
    })
    const ready = Promise.withResolvers<Serves>()
    const closed = Promise.withResolvers<void>()
    this.ready = ready.promise
    this.closed = closed.promise
    const over = () => {
      ready.reject(new StartError('A process of the gateway ended before it was ready'))
      closed.resolve()
    }
    this.heed({ ready: ready.resolve, failed: ready.reject, closed: closed.resolve }).then(over, over)
    // A caller that waits gets the rejection; without one it must not count as unhandled.
    this.ready.then(
      () => {
        this.serves = true
      },
      () => {},
    )
  }

  get pid(): number {
    return this.process.pid
  }

  order(order: Order): void {
    if (order === 'leave' || order === 'stop') this.leaving = true
    this.write(line({ order }))
  }

  kill(): void {
    this.process.kill('SIGKILL')
  }

  private write(text: string): void {
    try {
      this.process.stdin.write(text)
      void this.process.stdin.flush()
    } catch {
      // The process has ended, and its exit handler reports the end.
    }
  }

  private async heed(on: Heeds): Promise<void> {
    for await (const text of linesOf(this.process.stdout)) {
      const report = readLine(Report, text)
      if (report === null) continue
      if ('failed' in report) on.failed(new StartError(report.failed))
      else if ('closed' in report) on.closed()
      else on.ready(report)
    }
  }
}

interface Heeds {
  readonly ready: (serves: Serves) => void
  readonly failed: (error: StartError) => void
  readonly closed: () => void
}

async function passOn(stream: ReadableStream<Uint8Array>, say: (text: string) => void): Promise<void> {
  for await (const text of wholeLinesOf(stream)) say(text)
}
