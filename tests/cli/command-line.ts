import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

export const root = resolve(import.meta.dir, '../..')
const program = join(root, 'src/cli/main.ts')

export interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

export interface CommandLine {
  /** Of its own: no credentials of this machine are found in it. */
  readonly home: string
  /** Runs one command to its end. `stdin`: nothing, unless given. */
  run(
    args: readonly string[],
    more?: { readonly env?: Readonly<Record<string, string>>; readonly stdin?: string },
  ): Promise<Ended>
  /** The same, and the answer read as JSON; throws unless the command succeeds. */
  json<T = Record<string, unknown>>(...args: readonly string[]): Promise<T>
  start(args: readonly string[]): ReturnType<typeof Bun.spawn<'ignore', 'pipe', 'pipe'>>
  /** In a terminal. `text` grows; `type` sends keys. */
  inTerminal(args: readonly string[]): TerminalRun
  close(): void
}

export interface TerminalRun {
  text(): string
  type(keys: string): void
  readonly exited: Promise<number>
}

/** `env` is all that the command is told besides its home folder. */
export function commandLine(env: Readonly<Record<string, string>> = {}): CommandLine {
  const home = mkdtempSync(join(tmpdir(), 'penstock-cli-'))
  // A data folder that is not there, so that the one of this checkout is not looked at.
  const all = { PATH: process.env.PATH ?? '', HOME: home, SVC_DATA_DIR: join(home, 'data'), ...env }
  mkdirSync(join(home, '.config/penstock'), { recursive: true })
  const spawn = (args: readonly string[], more: Readonly<Record<string, string>>) =>
    [[process.execPath, program, ...args], { cwd: home, env: { ...all, ...more } }] as const
  const run: CommandLine['run'] = async (args, { env: more = {}, stdin } = {}) => {
    const [command, options] = spawn(args, more)
    const child = Bun.spawn([...command], {
      ...options,
      stdin: stdin === undefined ? 'ignore' : new TextEncoder().encode(stdin),
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    return { code, out, err }
  }
  return {
    home,
    run,
    json: async <T>(...args: readonly string[]) => {
      const ended = await run([...args, '--json'])
      if (ended.code !== 0) throw new Error(`${args.join(' ')}: ${ended.code} ${ended.err}`)
      return JSON.parse(ended.out) as T
    },
    start: (args) => {
      const [command, options] = spawn(args, {})
      return Bun.spawn([...command], { ...options, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
    },
    inTerminal: (args) => {
      const decoder = new TextDecoder()
      let text = ''
      const [command, options] = spawn(args, { TERM: 'xterm' })
      const child = Bun.spawn([...command], {
        ...options,
        terminal: {
          cols: 100,
          rows: 30,
          data: (_terminal, bytes) => {
            text += decoder.decode(bytes, { stream: true })
          },
        },
      })
      return { text: () => text, type: (keys) => void child.terminal?.write(keys), exited: child.exited }
    },
    close: () => rmSync(home, { recursive: true, force: true }),
  }
}
