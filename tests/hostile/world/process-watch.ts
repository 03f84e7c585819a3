import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Socket } from 'bun'
import { residentBytes } from '../../support/gateways/gateway-process.ts'
import { readForLeaks } from './leaks.ts'
import type { Stall } from './loop-monitor.ts'
import { type FromProcess, noPulse, type Pulse, type ToProcess, Words, watchVariable, word } from './process-words.ts'

/** A frozen process answers late; the stall itself is the finding. */
const pulseMsMax = 120_000
const root = resolve(import.meta.dir, '..', '..', '..')

export type WatchedChild = Bun.Subprocess<'ignore', 'pipe', 'pipe'>

interface Watched {
  readonly words: Words<FromProcess>
  readonly waiting: Map<number, (pulse: Pulse) => void>
  pid: number
  last: Pulse
}

/**
 * Everything that processes show of themselves: stalls, log, memory, descriptors. A process is watched if it was started here or
 * by one that was, as the processes of one gateway are.
 */
export class ProcessWatch {
  readonly stalls: Stall[] = []
  /** What should not be in a log, and its lines of the level `error`. */
  readonly logFaults: string[] = []
  /** One has ended although nobody asked for it. */
  dead = false
  readonly folder = mkdtempSync(join(tmpdir(), 'hostile-'))
  private readonly sockets = new Map<Socket, Watched>()
  private readonly children: { readonly child: WatchedChild; readonly read: Promise<void> }[] = []
  private readonly config = join(this.folder, 'watched.toml')
  private readonly unix = join(this.folder, 'pulse.sock')
  private readonly server
  private stopping = false
  private asked = 0

  constructor() {
    writeFileSync(this.config, `preload = [${JSON.stringify(join(import.meta.dir, 'process-pulse.ts'))}]\n`)
    this.server = Bun.listen({
      unix: this.unix,
      socket: {
        open: (socket) => this.opened(socket),
        data: (socket, bytes) => this.heard(socket, bytes),
        close: (socket) => this.closed(socket),
        error: () => {},
      },
    })
  }

  get pids(): readonly number[] {
    return [...this.sockets.values()].map(({ pid }) => pid).filter((pid) => pid !== 0)
  }

  /** A program of ours, as it is shipped; `ipc`: hears what it sends. */
  spawn(
    program: string,
    env: Readonly<Record<string, string>>,
    ipc?: (message: unknown, child: WatchedChild) => void,
  ): WatchedChild {
    // A supervisor passes its own `--config` on to its processes, and with it the watch.
    const child: WatchedChild = Bun.spawn([process.execPath, `--config=${this.config}`, program], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH ?? '', TMPDIR: this.folder, [watchVariable]: this.unix, ...env },
      ...(ipc === undefined ? {} : { ipc: (message: unknown) => ipc(message, child) }),
    })
    const read = readForLeaks(child.stderr, (line) => this.logFaults.push(line))
    this.children.push({ child, read })
    void child.exited.then(() => this.ended())
    return child
  }

  /** After this, what has stalled until now is in `stalls`. */
  async pulse(collect: boolean): Promise<Pulse> {
    const pulses = await Promise.all(
      [...this.sockets].map(([socket, watched]) => this.pulseOf(socket, watched, collect)),
    )
    const sum = (of: (pulse: Pulse) => number) => pulses.reduce((all, pulse) => all + of(pulse), 0)
    const most = (of: (pulse: Pulse) => number) => Math.max(0, ...pulses.map(of))
    return {
      worstMs: most((pulse) => pulse.worstMs),
      worstSinceMs: most((pulse) => pulse.worstSinceMs),
      consumedMs: sum((pulse) => pulse.consumedMs),
      heapBytes: sum((pulse) => pulse.heapBytes),
      heapObjects: sum((pulse) => pulse.heapObjects),
    }
  }

  descriptors(): number {
    return this.sum((pid) => readdirSync(`/proc/${pid}/fd`).length)
  }

  residentBytes(): number {
    return this.sum(residentBytes)
  }

  cpuMs(): number {
    return this.sum(cpuMs)
  }

  /** By SIGTERM, the newest first. */
  async stop(): Promise<void> {
    this.stopping = true
    for (const { child, read } of this.children.toReversed()) {
      child.kill('SIGTERM')
      await child.exited
      await read
    }
    this.server.stop(true)
    rmSync(this.folder, { recursive: true, force: true })
  }

  private sum(of: (pid: number) => number): number {
    return this.pids.reduce((total, pid) => total + of(pid), 0)
  }

  private opened(socket: Socket): void {
    const last = noPulse
    this.sockets.set(socket, { words: new Words(), waiting: new Map(), pid: 0, last })
  }

  private heard(socket: Socket, bytes: Uint8Array): void {
    const watched = this.sockets.get(socket)
    for (const said of watched?.words.heard(bytes) ?? []) {
      if (watched === undefined) continue
      if (said.kind === 'here') watched.pid = said.pid
      else if (said.kind === 'stall') this.stalls.push(said.stall)
      else watched.waiting.get(said.id)?.(said.pulse)
    }
  }

  private closed(socket: Socket): void {
    const watched = this.sockets.get(socket)
    this.sockets.delete(socket)
    for (const go of watched?.waiting.values() ?? []) go(watched?.last ?? noPulse)
    this.ended()
  }

  private ended(): void {
    this.dead ||= !this.stopping
  }

  private pulseOf(socket: Socket, watched: Watched, collect: boolean): Promise<Pulse> {
    const id = ++this.asked
    return new Promise((resolve, reject) => {
      const giveUp = setTimeout(() => reject(new Error(`process ${watched.pid} has no pulse`)), pulseMsMax)
      watched.waiting.set(id, (pulse) => {
        clearTimeout(giveUp)
        watched.waiting.delete(id)
        watched.last = pulse
        resolve(pulse)
      })
      socket.write(word({ id, collect } satisfies ToProcess))
    })
  }
}

/** The system counts hundredths of a second. */
const ticksMs = 10

function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * ticksMs
}
