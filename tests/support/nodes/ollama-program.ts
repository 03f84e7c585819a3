import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { waitFor } from '../gateways/gateway.ts'

/** The version these tests were run with. No package registry has a build of it, so Go builds it. */
const version = '0.12.0'
const miniaudio = 'miniaudio==1.71'
const home = join(tmpdir(), `penstock-ollama-${version}`)
const binary = join(home, 'bin', 'ollama')
/** What its C++ parts include, and the Debian package of each. */
const includes = [
  ['/usr/include/nlohmann/json.hpp', 'nlohmann-json3-dev'],
  ['/usr/include/stb/stb_image.h', 'libstb-dev'],
] as const

async function run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<boolean> {
  const child = Bun.spawn([...command], { stdio: ['ignore', 'ignore', 'ignore'], env: { ...process.env, ...env } })
  return (await child.exited) === 0
}

/** The one header that no Debian package has stands in the sources of a Python package. False: they cannot be had. */
async function fetchMiniaudio(): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-miniaudio-'))
  try {
    const download = ['pip', 'download', '-q', '--no-deps', '--no-binary', 'miniaudio', '-d', folder, miniaudio]
    if (!(await run(['python3', '-m', ...download]))) return false
    const [archive] = new Bun.Glob('miniaudio-*.tar.gz').scanSync({ cwd: folder })
    if (archive === undefined || !(await run(['tar', 'xzf', join(folder, archive), '-C', folder]))) return false
    const [header] = new Bun.Glob('miniaudio-*/**/miniaudio.h').scanSync({ cwd: folder })
    if (header === undefined) return false
    mkdirSync(join(home, 'include', 'miniaudio'), { recursive: true })
    await copyFile(join(folder, header), join(home, 'include', 'miniaudio', 'miniaudio.h'))
    return true
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Ollama's own program, built at the first call, which takes minutes; or what is missing for that. */
export async function ollamaProgram(): Promise<{ readonly binary: string } | { readonly missing: string }> {
  if (existsSync(binary)) return { binary }
  for (const tool of ['go', 'c++', 'python3', 'tar']) {
    if (Bun.which(tool) === null) return { missing: `there is no ${tool}` }
  }
  const lacking = includes.filter(([path]) => !existsSync(path)).map(([, name]) => name)
  if (lacking.length > 0) return { missing: `${lacking.join(' and ')} must be installed` }
  if (!(await fetchMiniaudio())) return { missing: `the sources of ${miniaudio} cannot be had from PyPI` }
  const env = { GOBIN: join(home, 'bin'), CGO_CPPFLAGS: `-I${join(home, 'include')}`, GOFLAGS: '-p=1' }
  const built = await run(['go', 'install', `github.com/ollama/ollama@v${version}`], { HOME: homedir(), ...env })
  return built ? { binary } : { missing: `Go cannot build github.com/ollama/ollama@v${version}` }
}

export interface Ran {
  readonly code: number
  /** What it printed, without the movements of its cursor. */
  readonly out: string
  readonly err: string
}

/** Terminal sequences by which it draws its progress. */
const escapes = new RegExp(`${String.fromCharCode(27)}\\[[0-9;?]*[A-Za-z]`, 'g')
const shown = async (stream: ReadableStream<Uint8Array>) => (await new Response(stream).text()).replaceAll(escapes, '')

/** Runs a command of the program against a server. It keeps its own files in `folder`. */
export async function runOllama(
  program: string,
  { url, folder }: { readonly url: string; readonly folder: string },
  args: readonly string[],
): Promise<Ran> {
  const env = { PATH: process.env.PATH ?? '', HOME: folder, OLLAMA_HOST: url }
  const child = Bun.spawn([program, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env })
  const [out, err, code] = await Promise.all([shown(child.stdout), shown(child.stderr), child.exited])
  return { code, out, err }
}

export interface OllamaServer {
  readonly url: string
  stop(): Promise<void>
}

function freePort(): number {
  const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  server.stop(true)
  return server.port
}

/** `ollama serve` with nothing in it. */
export async function startOllamaServer(program: string, folder: string): Promise<OllamaServer> {
  const url = `http://127.0.0.1:${freePort()}`
  const env = { PATH: process.env.PATH ?? '', HOME: folder, OLLAMA_HOST: url, OLLAMA_MODELS: join(folder, 'models') }
  const child = Bun.spawn([program, 'serve'], { stdio: ['ignore', 'ignore', 'ignore'], env })
  const answers = () =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false,
    )
  await waitFor('Ollama', answers)
  return {
    url,
    stop: async () => {
      // It ends the processes that run its models.
      child.kill('SIGTERM')
      await child.exited
    },
  }
}
