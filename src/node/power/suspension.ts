import { spawn } from 'node:child_process'
import { type Clock, systemClock } from '../../clock.ts'
import { waitAtMost } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import type { Log } from '../../log.ts'
import { minuteMs, secondMs } from '../../time.ts'

export interface SuspensionTimes {
  /** Between two looks whether anything runs. */
  readonly everyMs: number
  /** How long the gateway may take to read that the computer sleeps. */
  readonly announceMs: number
  /** How long the command may run. */
  readonly commandMs: number
  /** A computer that has not slept by then stays awake. */
  readonly sleptMs: number
}
export const suspensionTimes: SuspensionTimes = {
  everyMs: secondMs,
  announceMs: 15 * secondMs,
  commandMs: minuteMs,
  sleptMs: minuteMs,
}

export interface SuspensionOptions {
  /** A line for the system's shell, by the owner. */
  readonly command: string
  /** Idle time before it suspends; null: only the gateway's order suspends it. */
  readonly afterMs: number | null
  /** Something runs, is pinned in memory, or a person is at the computer. */
  readonly isBusy: () => boolean
  /** A gateway waits to be told. */
  readonly hasGateway: () => boolean
  readonly changed: () => void
  readonly log: Log
  readonly times?: SuspensionTimes
  readonly clock?: Clock
}

/** After its first question the gateway is told once more that there is something to ask, ms. */
const hintMs = 300

const shell: readonly string[] = process.platform === 'win32' ? ['cmd', '/c'] : ['/bin/sh', '-c']

/** Resolves with the exit code of the owner's command; null: it could not run, or took too long. */
function run(line: string, forMs: number): Promise<number | null> {
  const [program = '', ...args] = shell
  return new Promise((resolve) => {
    const child = spawn(program, [...args, line], { stdio: 'ignore', timeout: forMs, killSignal: 'SIGKILL' })
    child.on('error', () => resolve(null))
    child.on('close', (code) => resolve(code))
  })
}

/**
 * Suspends the computer by a command of its owner (§39): says so first, and not while anything runs.
 *
 * `awake` → (idle, or told by the gateway) `falling`: the status says that it sleeps → (the gateway has read it) the command →
 * `asleep` → (the clock has jumped, the command failed, or nothing happened) `awake`.
 */
export class Suspension {
  private state: 'awake' | 'falling' | 'asleep' = 'awake'
  /** How often the gateway has asked while it falls asleep. */
  private asked = 0
  private activeMs: number
  private announced = Promise.withResolvers<void>()
  private risen = Promise.withResolvers<void>()
  private readonly watching: Loop
  private readonly clock: Clock
  private stopped = false

  constructor(private readonly options: SuspensionOptions) {
    const { clock = systemClock, times = suspensionTimes } = options
    this.clock = clock
    this.activeMs = clock.now()
    this.watching = loop({ everyMs: times.everyMs, run: () => this.look(), clock })
    this.watching.start()
  }

  get sleeps(): boolean {
    return this.state !== 'awake'
  }

  /** A request has come. */
  touched(): void {
    this.activeMs = this.clock.now()
  }

  /** The gateway asks for a status. The second question since it was first told proves that the answer has arrived. */
  read(): void {
    if (this.state !== 'falling') return
    this.asked++
    if (this.asked >= 2) return this.announced.resolve()
    this.clock.after(hintMs, () => this.options.changed(), false)
  }

  /** The clock has jumped. */
  woke(): void {
    this.touched()
    this.risen.resolve()
  }

  /** The gateway says so. False: something runs. */
  order(): boolean {
    if (this.sleeps) return true
    if (this.options.isBusy()) return false
    void this.fall()
    return true
  }

  stop(): void {
    this.stopped = true
    void this.watching.stop()
    this.announced.resolve()
    this.risen.resolve()
  }

  private look(): void {
    const { afterMs, isBusy } = this.options
    if (this.sleeps) return
    if (isBusy()) return this.touched()
    if (afterMs !== null && this.clock.now() - this.activeMs >= afterMs) void this.fall()
  }

  private async fall(): Promise<void> {
    const { command, isBusy, hasGateway, log, times = suspensionTimes } = this.options
    this.announced = Promise.withResolvers()
    this.risen = Promise.withResolvers()
    const fromMs = this.clock.now()
    this.asked = 0
    this.become('falling')
    if (hasGateway()) await waitAtMost(times.announceMs, this.announced.promise, this.clock)
    // A request was on its way, or a program here has asked.
    if (this.stopped || isBusy() || this.activeMs > fromMs) return this.rise()
    this.become('asleep')
    log.info('suspending')
    const code = await run(command, times.commandMs)
    if (code !== 0) {
      log.warn('suspend_failed', { code: code ?? 'none' })
      return this.rise()
    }
    let slept = false
    await waitAtMost(
      times.sleptMs,
      this.risen.promise.then(() => {
        slept = true
      }),
      this.clock,
    )
    if (!slept) log.warn('not_suspended')
    this.rise()
  }

  private rise(): void {
    this.touched()
    if (!this.stopped) this.become('awake')
  }

  private become(state: Suspension['state']): void {
    this.state = state
    this.options.changed()
  }
}
