import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from '../gateways/free-port.ts'
import { waitFor } from '../gateways/gateway.ts'
import type { Suite } from './suites.ts'

/** Its first start makes its database and imports what torch has: minutes on a busy machine. */
export const startMs = 900_000

/** What comes through its own interface from a gateway that is its connection for OpenAI. */
export const openWebUi: Suite = {
  requirement: 'open-webui==0.12.4',
  test: 'tests/heavy/open-webui.test.ts',
  facts: {
    models: ['m', 'm-embed'],
    whole: 'well said',
    stream: ['well said', 'data: [DONE]'],
    tool: 'look',
    embedding: [0.5, -0.5],
    messages: ['well said', 'end_turn'],
    refused: [400, 'invalid_request', 'temperature'],
    left: true,
  },
}

export interface OpenWebUi {
  /** A call with the token of its first user, who is its administrator. */
  call(path: string, body?: object, signal?: AbortSignal): Promise<Response>
  stop(): Promise<void>
}

/** As docs/integrations/open-webui.md sets it up; `openai`: the gateway's address with `/v1`. It fetches nothing, and has its documents' embeddings from the gateway, too. */
export async function startOpenWebUi(python: string, openai: string, key: string): Promise<OpenWebUi> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-open-webui-'))
  const data = join(folder, 'data')
  mkdirSync(data)
  const port = freePort()
  const url = `http://127.0.0.1:${port}`
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: folder,
    DATA_DIR: data,
    WEBUI_SECRET_KEY: 'of-a-test',
    OPENAI_API_BASE_URLS: openai,
    OPENAI_API_KEYS: key,
    ENABLE_OLLAMA_API: 'false',
    RAG_EMBEDDING_ENGINE: 'openai',
    OFFLINE_MODE: 'true',
    HF_HUB_OFFLINE: '1',
    ANONYMIZED_TELEMETRY: 'false',
    DO_NOT_TRACK: '1',
    SCARF_NO_ANALYTICS: 'true',
  }
  const command = [join(dirname(python), 'open-webui'), 'serve', '--host', '127.0.0.1', '--port', String(port)]
  // It imports what stands in the folder above, too.
  const child = Bun.spawn(command, { cwd: data, env, stdio: ['ignore', 'ignore', 'pipe'] })
  const wrong = new Response(child.stderr).text()
  const stop = async () => {
    child.kill('SIGTERM')
    await child.exited
    rmSync(folder, { recursive: true, force: true })
  }
  const healthy = async () => {
    if (child.exitCode !== null) throw new Error(`Open WebUI ended: ${(await wrong).slice(-2_000)}`)
    return fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  }
  const post = (path: string, body: object, headers: object, signal?: AbortSignal) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    })
  try {
    await waitFor('Open WebUI', healthy, startMs)
    const person = { name: 'a', email: 'a@example.com', password: 'of-a-Test-1' }
    const { token } = (await (await post('/api/v1/auths/signup', person, {})).json()) as { token: string }
    const headers = { authorization: `Bearer ${token}` }
    return {
      call: (path, body, signal) =>
        body === undefined ? fetch(url + path, { headers }) : post(path, body, headers, signal),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
