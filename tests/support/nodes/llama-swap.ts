import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../gateways/free-port.ts'
import { waitFor } from '../gateways/gateway.ts'
import { llamaCommand, writeTinyModel } from './llama-server.ts'

/** The program, which no package registry has: Go builds it of its sources. null: this machine does not have it. */
export const llamaSwapProgram: string | null = process.env.LLAMA_SWAP ?? Bun.which('llama-swap')

export interface LlamaSwap {
  readonly url: string
  /** Models whose servers run, by its own word. */
  running(): Promise<readonly string[]>
  stop(): Promise<void>
}

/** llama-swap with two models of llama.cpp, `swap-a` and `swap-b`, of which it keeps one in memory, and one that it says ranks. */
export async function startLlamaSwap(program: string, python: string, contextTokens: number): Promise<LlamaSwap> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-llama-swap-'))
  const file = await writeTinyModel(python, contextTokens)
  const command = (id: string) =>
    llamaCommand(python, file, id, contextTokens, 2)
      .join(' ')
      .replace('{port}', '$' + '{PORT}')
  const capabilities = { in: ['text'], out: ['text'], context: contextTokens }
  const models = {
    'swap-a': { cmd: command('swap-a'), capabilities },
    'swap-b': { cmd: command('swap-b') },
    'swap-c': { cmd: command('swap-c'), capabilities: { reranker: true } },
  }
  const config = join(folder, 'config.yaml')
  // Every JSON text is YAML, too.
  await Bun.write(config, JSON.stringify({ startPort: freePort(), models }))
  const port = freePort()
  const url = `http://127.0.0.1:${port}`
  const child = Bun.spawn([program, '-config', config, '-listen', `127.0.0.1:${port}`], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder },
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const answers = () =>
    fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  await waitFor('llama-swap', answers)
  return {
    url,
    running: async () => {
      const { running } = (await (await fetch(`${url}/running`)).json()) as {
        running: { model: string; state: string }[]
      }
      return running.filter(({ state }) => state === 'ready').map(({ model }) => model)
    },
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      await Bun.file(file).delete()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
