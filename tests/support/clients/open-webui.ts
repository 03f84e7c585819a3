import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from '../gateways/free-port.ts'
import { waitFor } from '../gateways/gateway.ts'
import type { Suite } from './suites.ts'

/** Its first start makes its database and imports what torch has: minutes on a busy machine. */
export const startMs = 900_000

/** What comes through its own interface from a gateway, whichever connection it has to it. */
const answers = {
  models: ['m', 'm-embed'],
  whole: 'well said',
  stream: ['well said', 'data: [DONE]'],
  tool: 'look',
  embedding: [0.5, -0.5],
  messages: ['well said', 'end_turn'],
  left: true,
}
const tooHot = 'options.temperature must be a number of at most 2; you sent 9.'
/** Of Ollama's errors it passes on the sentence. */
export const byConnection = {
  openai: { ...answers, refused: [400, 'invalid_request', 'temperature'] },
  ollama: { ...answers, refused: [400, tooHot] },
} as const
export type Connection = keyof typeof byConnection

const named = (connection: Connection) =>
  Object.entries(byConnection[connection]).map(([name, fact]) => [`${connection}: ${name}`, fact] as const)
export const openWebUi: Suite = {
  requirement: 'open-webui==0.12.4',
  test: 'tests/heavy/open-webui.test.ts',
  facts: Object.fromEntries([...named('openai'), ...named('ollama')]),
}

export interface OpenWebUi {
  /** A call with the token of its first user, who is its administrator. */
  call(path: string, body?: object, signal?: AbortSignal): Promise<Response>
  stop(): Promise<void>
}

export interface ConnectionTo {
  readonly connection: Connection
  /** The gateway's address with `/v1`, or its listener for Ollama's clients. */
  readonly url: string
  readonly key: string
}

/** Ollama's has no key: the listener has one for those who come without. */
const settings = ({ connection, url, key }: ConnectionTo): Readonly<Record<string, string>> =>
  connection === 'openai'
    ? { OPENAI_API_BASE_URLS: url, OPENAI_API_KEYS: key, ENABLE_OLLAMA_API: 'false', RAG_EMBEDDING_ENGINE: 'openai' }
    : { OLLAMA_BASE_URL: url, ENABLE_OPENAI_API: 'false', RAG_EMBEDDING_ENGINE: 'ollama' }

/** As docs/integrations/open-webui.md sets it up. It fetches nothing, and has its documents' embeddings from the gateway, too. */
export async function startOpenWebUi(python: string, to: ConnectionTo): Promise<OpenWebUi> {
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
    ...settings(to),
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
