import { type ChildProcess, spawn } from 'node:child_process'
import { descriptors } from '../../host/descriptors.ts'
import { endTree } from '../../host/platform/platforms.ts'
import { killMarked, markedProcesses, markVariable, signalAll } from './marked-processes.ts'
import { inheritedEnvironment } from './server-environment.ts'

/** How much of the end of a command's output is kept, bytes. */
export const outputBytesMax = 64 * 1024
/** Descriptors for two pipes and for starting a program. */
const launchDescriptors = 10
/** How long killed processes may take to be gone, ms. Only the kernel can hold one for longer. */
const killedWithinMs = 10_000

export interface ServerCommand {
  readonly command: readonly string[]
  /** In addition to the inherited variables. */
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** What ends it in order. Absent: the signal SIGTERM does. */
  readonly stop?: readonly string[]
  /** Of this start alone, and beginning with the word of this agent; ends with a full stop. */
  readonly mark: string
}

/** The end of a command's output. */
class Output {
  private chunks: Buffer[] = []
  private size = 0

  add(chunk: Buffer): void {
    this.chunks.push(chunk)
    this.size += chunk.length
    if (this.size <= 2 * outputBytesMax) return
    this.chunks = [Buffer.from(this.bytes())]
    this.size = this.chunks[0]?.length ?? 0
  }

  text(): string {
    return this.bytes().toString('utf8')
  }

  private bytes(): Buffer {
    return Buffer.concat(this.chunks).subarray(-outputBytesMax)
  }
}

function launched(
  { command, env, cwd, mark }: Omit<ServerCommand, 'stop'>,
  failed: (error: unknown) => void,
): ChildProcess | null {
  const [program = '', ...args] = command
  descriptors.lend(launchDescriptors)
  try {
    // A group of its own: Ctrl-C in a terminal ends the agent, which ends its servers in order. SPT_NOENV: Python's
    // setproctitle (vLLM) would write its title over the environment by which the processes are known.
    return spawn(program, args, {
      cwd,
      env: { ...inheritedEnvironment(process.env), SPT_NOENV: '1', ...env, [markVariable]: mark },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  } catch (error) {
    failed(error)
    return null
  }
}

/** One run of a model server's command, in a process group of its own. */
export class ServerProcess {
  /** Resolves when no process of the command is left. */
  readonly exited: Promise<void>
  private readonly output = new Output()
  private readonly child: ChildProcess | null
  private over = false
  /** The run of the command that stops it; null: it was not asked to end. */
  private stopped: ChildProcess | null = null

  constructor(private readonly started: ServerCommand) {
    const leader = Promise.withResolvers<void>()
    const notStarted = (error: unknown) => {
      this.say(`It could not be started (${String((error as { code?: unknown }).code)}).`)
      leader.resolve()
    }
    this.child = launched(started, notStarted)
    for (const stream of [this.child?.stdout, this.child?.stderr]) {
      stream?.on('data', (chunk: Buffer) => this.output.add(chunk))
      stream?.on('error', () => {})
    }
    this.child?.once('error', notStarted)
    this.child?.once('exit', (code, signal) => {
      this.say(signal === null ? `It ended with exit code ${code}.` : `It was ended by ${signal}.`)
      leader.resolve()
    })
    this.exited = leader.promise.then(() => this.gone())
  }

  /** The end of its output, at most `outputBytesMax` bytes. */
  get text(): string {
    return this.output.text()
  }

  /** Its first process has ended. */
  get ended(): boolean {
    return this.over
  }

  /** Asks it to end, by the command that its owner names for that, or by a signal. */
  terminate(): void {
    const { stop } = this.started
    if (this.over || stop === undefined) return this.signal('SIGTERM')
    this.stopped ??= launched({ ...this.started, command: stop }, (error) => {
      this.say(`The command that stops it could not be started (${String((error as { code?: unknown }).code)}).`)
      this.signal('SIGTERM')
    })
    for (const stream of [this.stopped?.stdout, this.stopped?.stderr]) {
      stream?.on('data', (chunk: Buffer) => this.output.add(chunk))
      stream?.on('error', () => {})
    }
    this.stopped?.once('error', () => this.signal('SIGTERM'))
  }

  kill(): void {
    this.signal('SIGKILL')
    signalAll(markedProcesses(this.started.mark), 'SIGKILL')
  }

  /** The first process has ended; ends the processes that it started. */
  private async gone(): Promise<void> {
    this.over = true
    this.killGroup()
    await killMarked(this.started.mark, killedWithinMs)
  }

  /** The rest of the group, even processes that have lost the mark. */
  private killGroup(): void {
    const pid = this.child?.pid
    if (pid === undefined) return
    try {
      // The number stays the group's own while a process of it lives: one that it names again is another's.
      process.kill(pid, 0)
    } catch (error) {
      if ((error as { code?: unknown }).code === 'ESRCH') signalAll([-pid], 'SIGKILL')
    }
  }

  private signal(signal: 'SIGTERM' | 'SIGKILL'): void {
    const pid = this.child?.pid
    if (this.over || pid === undefined) return
    if (endTree !== null) return endTree(pid)
    try {
      process.kill(-pid, signal)
    } catch {
      // The group has ended.
    }
  }

  private say(text: string): void {
    this.output.add(Buffer.from(`\n[agent] ${text}\n`))
  }
}
