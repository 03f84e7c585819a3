import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { start } from '../../../src/main.ts'
import { type CommandLine, commandLine } from '../../cli/command-line.ts'

/** A folder of its own and a command line beside it. */
export interface Bench {
  readonly dir: string
  readonly cli: CommandLine
  path(name: string): string
  /** What is written in a backup, its first line (with time and secrets) apart. */
  textOf(file: string): string
  headerOf(file: string): Record<string, unknown>
  rewrite(file: string, change: (text: string) => string): void
  close(): void
}

export function openBench(): Bench {
  const dir = mkdtempSync(join(tmpdir(), 'penstock-offline-'))
  const cli = commandLine()
  const text = (file: string) => gunzipSync(readFileSync(file)).toString()
  return {
    dir,
    cli,
    path: (name) => join(dir, name),
    textOf: (file) => text(file).replace(/^.*\n/, ''),
    headerOf: (file) =>
      JSON.parse(
        text(file)
          .replace(/^-- \S+ /, '')
          .replace(/\n[\s\S]*$/, ''),
      ),
    rewrite: (file, change) => void Bun.write(file, gzipSync(change(text(file)))),
    close: () => {
      cli.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

export interface EmbeddedCredentials {
  readonly admin_token: string
  readonly operator_token: string
  readonly viewer_token: string
  readonly customer_id: string
  readonly gateway_key: string
}

/** A gateway with its own embedded PostgreSQL, in this process. */
export async function startEmbeddedGateway(dataDir: string, env: Readonly<Record<string, string>> = {}) {
  const server = await start(
    {
      SVC_DATA_DIR: dataDir,
      SVC_PORT: '0',
      SVC_DISCOVER: 'false',
      SVC_DEMO: 'never',
      SVC_LOG_LEVEL: 'silent',
      SVC_POLL_INTERVAL_MS: '100',
      SVC_SHUTDOWN_GRACE_MS: '2000',
      ...env,
    },
    { quiet: true },
  )
  const credentials = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as EmbeddedCredentials
  return { url: server.url, credentials, stop: () => server.stop() }
}

/** A call with an admin token; throws unless 2xx. */
export async function adminCall<T = Record<string, unknown>>(
  url: string,
  token: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<T> {
  const response = await fetch(url + path, {
    method,
    headers: { 'x-svc-admin-token': token, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as T
}

export function chatWith(url: string, key: string, model: string): Promise<Response> {
  return fetch(`${url}/v1/api/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }),
  })
}

export async function nodeReady(url: string, token: string, nodeId: string): Promise<boolean> {
  return (await adminCall<{ state: string }>(url, token, 'GET', `/v1/admin/nodes/${nodeId}`)).state === 'ready'
}
