import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A first build fetches and compiles every package: many minutes on two busy cores. */
export const buildMs = 1_500_000

/** How each language gets the packages of a folder of `tests/sdk` and makes a program of it, and what runs it then. */
const builders = {
  go: { tool: 'go', fetch: ['go', 'mod', 'download'], build: ['go', 'build', '-o', 'loops', '.'], run: ['./loops'] },
  // Apart, because the clients of the others take many minutes to be built.
  'go-ehbp': {
    tool: 'go',
    fetch: ['go', 'mod', 'download'],
    build: ['go', 'build', '-o', 'loops', '.'],
    run: ['./loops'],
  },
  java: {
    tool: 'mvn',
    fetch: ['mvn', '-q', '-B', 'dependency:copy-dependencies', '-DoutputDirectory=target/packages'],
    build: ['mvn', '-q', '-B', 'compile'],
    run: ['java', '-XX:TieredStopAtLevel=1', '-cp', 'target/classes:target/packages/*', 'Loops'],
  },
  rust: {
    tool: 'cargo',
    fetch: ['cargo', 'fetch', '--locked'],
    build: ['cargo', 'build', '--locked', '-q'],
    run: ['./target/debug/loops'],
  },
} as const
export type Language = keyof typeof builders

export interface CompiledProgram {
  readonly folder: string
  readonly run: readonly string[]
}

/** What went wrong; null: nothing. */
async function fault(command: readonly string[], cwd: string): Promise<string | null> {
  const child = Bun.spawn([...command], { cwd, stdio: ['ignore', 'pipe', 'pipe'], timeout: buildMs })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return (await child.exited) === 0 ? null : (wrong + out).slice(-2_000)
}

/**
 * The program of `tests/sdk/<language>`, built in a folder of temporary files that is kept. A string: why there is none, because the
 * machine has no such tool or does not reach its packages. Throws where the program cannot be built of them.
 */
export async function compiled(language: Language): Promise<CompiledProgram | string> {
  const { tool, fetch, build, run } = builders[language]
  if (Bun.which(tool) === null) return `this machine has no ${tool}`
  const source = join(import.meta.dir, '../../sdk', language)
  const files = readdirSync(source, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const texts = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8')).toSorted()
  const folder = join(tmpdir(), `penstock-${language}-${Bun.hash(texts.join('\0')).toString(36)}`)
  const built = join(folder, 'built')
  if (existsSync(built)) return { folder, run }
  mkdirSync(folder, { recursive: true })
  cpSync(source, folder, { recursive: true })
  if ((await fault(fetch, folder)) !== null) return `${tool} does not get the packages of tests/sdk/${language}`
  const wrong = await fault(build, folder)
  if (wrong !== null) throw new Error(`${tool} does not build tests/sdk/${language}: ${wrong}`)
  writeFileSync(built, '')
  return { folder, run }
}

/** What the program prints for one client. */
export async function toldBy(
  { folder, run }: CompiledProgram,
  client: string,
  env: Readonly<Record<string, string>>,
): Promise<unknown> {
  const inherited = { PATH: process.env.PATH ?? '', HOME: folder }
  const child = Bun.spawn([...run, client], { cwd: folder, env: { ...inherited, ...env }, stderr: 'pipe' })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0) throw new Error(wrong.slice(-2_000))
  return JSON.parse(out)
}
