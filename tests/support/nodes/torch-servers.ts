import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from '../gateways/free-port.ts'
import { waitFor } from '../gateways/gateway.ts'

/** A first start imports thousands of files on a busy machine. */
const startMs = 300_000
const scripts = join(import.meta.dir, 'torch')

export const transformersPackages = ['transformers[serving]==5.24.0', 'torch==2.15.0'] as const
export const infinityPackages = ['infinity-emb[torch,server]==0.0.78', 'torch==2.15.0'] as const
export const contextTokens = 512

export interface PythonServer {
  readonly url: string
  stop(): Promise<void>
}

/** Nothing is fetched from a hub, and nothing told to one. */
const quiet = (folder: string) => ({
  PATH: process.env.PATH ?? '',
  HOME: folder,
  HF_HOME: folder,
  HF_HUB_OFFLINE: '1',
  DO_NOT_TRACK: '1',
})

async function write(python: string, script: string, args: readonly string[]): Promise<void> {
  const child = Bun.spawn([python, join(scripts, script), ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  const wrong = await new Response(child.stderr).text()
  if ((await child.exited) !== 0) throw new Error(wrong.slice(-2_000))
}

async function started(
  command: readonly string[],
  folder: string,
  { port, path }: { readonly port: number; readonly path: string },
): Promise<PythonServer> {
  const url = `http://127.0.0.1:${port}`
  const child = Bun.spawn([...command], { cwd: folder, env: quiet(folder), stdio: ['ignore', 'ignore', 'ignore'] })
  const answers = () =>
    fetch(url + path).then(
      ({ ok }) => ok,
      () => false,
    )
  await waitFor(command[0] ?? '', answers, startMs)
  return {
    url,
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** `transformers serve` with the model `tiny/chat`, which was downloaded and is not in memory. */
export async function startTransformers(python: string): Promise<PythonServer> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-transformers-'))
  await write(python, 'tiny-chat.py', [join(folder, 'hub'), 'tiny/chat', String(contextTokens)])
  const port = freePort()
  const options = ['--host', '127.0.0.1', '--port', String(port), '--device', 'cpu']
  return started([join(dirname(python), 'transformers'), 'serve', ...options], folder, { port, path: '/health' })
}

/** Infinity with the models `words-a`, which embeds, and `words-b`, which ranks: neither name says so. */
export async function startInfinity(python: string): Promise<PythonServer> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-infinity-'))
  const models = [
    ['words-a', 'embed'],
    ['words-b', 'rank'],
  ] as const
  for (const [name, purpose] of models)
    await write(python, 'tiny-bert.py', [join(folder, name), String(contextTokens), purpose])
  const port = freePort()
  const named = models.flatMap(([name]) => ['--model-id', join(folder, name), '--served-model-name', name])
  const options = ['--host', '127.0.0.1', '--port', String(port), '--url-prefix', '/v1', '--engine', 'torch']
  const cheap = ['--device', 'cpu', '--no-model-warmup', '--no-bettertransformer']
  const command = [join(dirname(python), 'infinity_emb'), 'v2', ...named, ...options, ...cheap]
  return started(command, folder, { port, path: '/v1/models' })
}
