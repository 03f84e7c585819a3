import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

export const root = resolve(import.meta.dir, '..')
export const runFolder = join(root, '.run', 'bench')
const rigFolder = join(import.meta.dir, 'rig')

/** Something is missing on this machine: the text is all the reader needs. */
export class RigError extends Error {
  override readonly name = 'RigError'
}

/** Builds one program of bench/rig, unless it is newer than its source; returns its path. */
export function build(name: 'mock' | 'loadgen'): string {
  if (process.platform !== 'linux') throw new RigError('The load generator of this bench needs Linux (epoll, /proc).')
  const source = join(rigFolder, `${name}.c`)
  const program = join(runFolder, name)
  if (existsSync(program) && statSync(program).mtimeMs > statSync(source).mtimeMs) return program
  mkdirSync(runFolder, { recursive: true })
  const compiler = process.env.CC ?? 'cc'
  const made = spawnSync(compiler, ['-O2', '-o', program, source, '-lpthread', '-lm'], { encoding: 'utf8' })
  if (made.error)
    throw new RigError(`No C compiler (${compiler}): install one (Debian: apt-get install gcc libc6-dev) or set CC.`)
  if (made.status !== 0) throw new RigError(`${compiler} cannot build ${source}:\n${made.stderr}`)
  return program
}

/** A program that runs until it is stopped. */
export interface Program {
  readonly pid: number
  readonly child: ChildProcess
  /** SIGTERM, SIGKILL when it does not end, and waits for the end. */
  stop(): Promise<void>
}

export interface Launch {
  readonly cpu?: string | null | undefined
  readonly env?: Readonly<Record<string, string>>
  /** Whether it is told something on its standard input. */
  readonly stdin?: boolean
  /** An open file for what it writes to stderr; default: nowhere. */
  readonly stderr?: number
}

const killAfterMs = 10_000
const running = new Set<Program>()

/** Each stream through a proxy takes two descriptors: the limit of open files is raised to what the system allows. */
const raised = ['sh', '-c', 'ulimit -n "$(ulimit -Hn)"; exec "$@"', 'sh']
export const onCpu = (cpu: string | null | undefined, command: readonly string[]): readonly string[] =>
  cpu == null ? command : ['taskset', '-c', cpu, ...command]

/** Its own process group: Ctrl-C reaches this process only, which then stops the others in order. */
export function launch(command: readonly string[], { cpu, env = {}, stderr, stdin }: Launch = {}): Program {
  const [program = '', ...args] = onCpu(cpu, [...raised, ...command])
  const child = spawn(program, args, {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', BUN_CONFIG_MAX_HTTP_REQUESTS: '65535', ...env },
    stdio: [stdin === true ? 'pipe' : 'ignore', 'pipe', stderr ?? 'ignore'],
    detached: true,
  })
  const exited = new Promise<void>((done) => {
    child.on('exit', () => done())
    child.on('error', () => done())
  })
  const { pid } = child
  if (pid === undefined) throw new RigError(`${program} cannot be started`)
  const made: Program = {
    pid,
    child,
    stop: async () => {
      running.delete(made)
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
      await exited
      clearTimeout(late)
    },
  }
  running.add(made)
  return made
}

const temporary = new Set<string>()

/** Removed by `stopAll`. PostgreSQL runs as another user when this one is root, so others may enter. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-bench-'))
  chmodSync(folder, 0o755)
  temporary.add(folder)
  return folder
}

/** Ends everything that was started here and removes what it wrote. */
export async function stopAll(): Promise<void> {
  await Promise.all([...running].map((program) => program.stop()))
  for (const folder of temporary) rmSync(folder, { recursive: true, force: true })
  temporary.clear()
}

/** What a program says on stdout up to the first match; rejects when it ends before. */
export function saidBy(program: Program, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((found, fail) => {
    let text = ''
    program.child.stdout?.setEncoding('utf8').on('data', (part: string) => {
      text += part
      const match = pattern.exec(text)
      if (match !== null) found(match)
    })
    program.child.on('exit', () => fail(new RigError(`it ended before it was ready: ${text.slice(-400)}`)))
  })
}

export async function until(what: string, holds: () => Promise<boolean>, withinMs = 15_000): Promise<void> {
  const endMs = performance.now() + withinMs
  while (!(await holds().catch(() => false))) {
    if (performance.now() > endMs) throw new RigError(`waited in vain for ${what}`)
    await Bun.sleep(20)
  }
}

/** All processes below `pid`, without itself. */
export function descendants(pid: number): readonly number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendants(child)])
}

function childrenOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    )
  } catch {
    return []
  }
}

/** The upstream: bench/rig/mock.c, alike on `ports` ports from `port` on. */
export interface Mock {
  readonly pid: number
  /** A port for each target keeps the closed connections of one from using up the client ports of the next. */
  url(target: number): string
  stats(): Promise<MockStats>
  /** The last chat body as the node got it. */
  lastBody(): Promise<string>
}

export interface MockStats {
  readonly open_streams: number
  /** CLOCK_MONOTONIC, digits. */
  readonly last_abort_ns: string
}

const mockPorts = 8

export async function startMock(cpu: string | null): Promise<Mock> {
  const program = build('mock')
  const port = freePortRange()
  const url = (target: number) => `http://127.0.0.1:${port + 1 + target}`
  const own = `http://127.0.0.1:${port}`
  const { pid } = launch([program, '--port', String(port), '--ports', String(mockPorts), '--keep-last'], { cpu })
  await until('the mock', async () => (await fetch(`${own}/health`)).ok)
  return {
    pid,
    url,
    stats: async () => (await (await fetch(`${own}/__stats`)).json()) as MockStats,
    lastBody: async () => await (await fetch(`${own}/__last`)).text(),
  }
}

/** Below the range from which the kernel takes client ports, so that no connection of ours sits on one of them. */
function freePortRange(): number {
  for (let port = 19_001; port < 30_000; port += mockPorts) {
    try {
      const taken = Array.from({ length: mockPorts }, (_, at) =>
        Bun.listen({ hostname: '127.0.0.1', port: port + at, socket: { data: () => {} } }),
      )
      for (const listener of taken) listener.stop()
      return port
    } catch {
      // Someone listens there.
    }
  }
  throw new RigError('no free ports for the mock')
}

const ticksPerSecond = 100
/** Seconds of processor time that a process has taken; 0 where it has ended. */
export function cpuSeconds(pid: number): number {
  const file = `/proc/${pid}/stat`
  if (!existsSync(file)) return 0
  const stat = readFileSync(file, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}
