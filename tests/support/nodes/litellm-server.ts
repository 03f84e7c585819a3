import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from '../gateways/free-port.ts'
import { waitFor } from '../gateways/gateway.ts'

/** Its first start imports a few thousand files. */
const startMs = 240_000

export interface LiteLlmServer {
  readonly url: string
  /** Without it, it refuses to list its models. */
  readonly key: string
  stop(): Promise<void>
}

/** LiteLLM's proxy as a node: its model `m` is chat at `upstream`, `m-embed` embeds there. */
export async function startLiteLlm(python: string, upstream: string): Promise<LiteLlmServer> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-litellm-'))
  const key = 'sk-of-the-proxy'
  const way = (model: string) => ({ model: `openai/${model}`, api_base: `${upstream}/v1`, api_key: 'none' })
  const models = ['m', 'm-embed'].map((model) => ({ model_name: model, litellm_params: way(model) }))
  const config = join(folder, 'config.json')
  const settings = { num_retries: 0, telemetry: false }
  await Bun.write(
    config,
    JSON.stringify({ model_list: models, general_settings: { master_key: key }, litellm_settings: settings }),
  )
  const port = freePort()
  const url = `http://127.0.0.1:${port}`
  const child = Bun.spawn(
    [join(dirname(python), 'litellm'), '--config', config, '--host', '127.0.0.1', '--port', `${port}`],
    {
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', HOME: folder, LITELLM_LOCAL_MODEL_COST_MAP: 'True', NO_DOCS: 'True' },
      stdio: ['ignore', 'ignore', 'ignore'],
    },
  )
  const lives = () =>
    fetch(`${url}/health/liveliness`).then(
      ({ ok }) => ok,
      () => false,
    )
  await waitFor('LiteLLM', lives, startMs)
  return {
    url,
    key,
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
