import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The newest versions these tests were run with. `xllamacpp` carries llama.cpp's server, prebuilt. */
const packages = ['xllamacpp==2026.10.11549', 'gguf==0.19.0', 'numpy==2.4.6']
const scripts = join(import.meta.dir, 'llama-cpp')

export interface LlamaServer {
  readonly url: string
  stop(): Promise<void>
}

async function run(command: readonly string[]): Promise<boolean> {
  const child = Bun.spawn([...command], { stdio: ['ignore', 'ignore', 'ignore'] })
  return (await child.exited) === 0
}

/** The Python that has the packages, installed at the first call; null: no Python, or PyPI is not reached. */
export async function llamaPython(): Promise<string | null> {
  const home = join(tmpdir(), `penstock-${Bun.hash(packages.join()).toString(36)}`)
  const python = join(home, 'bin', 'python')
  const installed = join(home, 'installed')
  if (existsSync(installed)) return python
  if (Bun.which('python3') === null || !(await run(['python3', '-m', 'venv', home]))) return null
  if (!(await run([python, '-m', 'pip', 'install', '-q', '--timeout', '10', '--retries', '1', ...packages])))
    return null
  await Bun.write(installed, '')
  return python
}

type Purpose = 'chat' | 'embed' | 'rank'

/** Writes a tiny random model; resolves with its file, which the caller deletes. */
export async function writeTinyModel(
  python: string,
  contextTokens: number,
  purpose: Purpose = 'chat',
): Promise<string> {
  // By their names some servers are known to embed or to rank.
  const named = { chat: 'tiny', embed: 'tiny-embed', rank: 'tiny-qwen3-reranker' }[purpose]
  const file = join(tmpdir(), `penstock-${named}-${process.pid}-${contextTokens}.gguf`)
  if (!(await run([python, join(scripts, 'tiny-model.py'), file, String(contextTokens), purpose]))) {
    throw new Error('the tiny model was not written')
  }
  return file
}

/** The command of a `models.json` that serves such a file as `id`. */
export const llamaCommand = (python: string, file: string, id: string, contextTokens: number, slots: number) =>
  [
    python,
    join(scripts, 'serve.py'),
    file,
    String(contextTokens),
    String(slots),
    'chat',
    '{port}',
    '--model',
    id,
  ] as const

/** llama.cpp's own server with a tiny random model. `contextTokens`: of each slot. */
export async function startLlamaServer(
  python: string,
  {
    contextTokens,
    slots,
    purpose = 'chat',
  }: { readonly contextTokens: number; readonly slots: number; readonly purpose?: Purpose },
): Promise<LlamaServer> {
  const model = await writeTinyModel(python, contextTokens, purpose)
  const command = [python, join(scripts, 'serve.py'), model, String(contextTokens), String(slots), purpose]
  const child = Bun.spawn(command, { stdio: ['pipe', 'pipe', 'ignore'] })
  let printed = ''
  for await (const piece of child.stdout) {
    printed += new TextDecoder().decode(piece)
    if (printed.includes('\n')) break
  }
  const url = /^listening (\S+)/.exec(printed)?.[1]
  if (url === undefined) throw new Error('the llama.cpp server did not start')
  return {
    url,
    stop: async () => {
      child.kill('SIGKILL')
      await child.exited
      await Bun.file(model).delete()
    },
  }
}
