import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { seededKey } from '../../../src/actors/accounts/seeded-key.ts'
import { firstOrigin, signersOf } from '../../../src/actors/log/log-names.ts'
import type { BackupHeader } from '../../../src/db/backup/backup-text.ts'
import { start } from '../../../src/main.ts'
import { sealOf } from '../../../src/offline/backup-seal.ts'
import { sha256Hex } from '../../../src/secrets.ts'
import { type CommandLine, commandLine } from '../../cli/command-line.ts'
import { openFolder } from './open-folder.ts'
import { prepareFolder } from './prepared-folder.ts'

/** A folder of its own and a command line beside it. */
export interface Bench {
  readonly dir: string
  readonly cli: CommandLine
  path(name: string): string
  /** What is written in a backup, its first line (with time and secrets) apart. */
  textOf(file: string): string
  headerOf(file: string): BackupHeader
  /** As somebody who has the log key changes it. `seeds`: of other keys; none: the file is sealed and not signed. */
  rewrite(file: string, change: (text: string) => string, seeds?: readonly string[]): void
  /** The log key of the gateway that wrote it, as the operator keeps it. */
  keyOf(file: string): string
  close(): void
}

export function openBench(): Bench {
  const dir = openFolder('penstock-offline-')
  const cli = commandLine()
  const whole = (file: string) => gunzipSync(readFileSync(file)).toString()
  const text = (file: string) => whole(file).replace(/(?<=\n)-- svc-backup-v2\n[\s\S]*$/, '')
  const headerOf = (file: string) =>
    JSON.parse(
      text(file)
        .replace(/^-- \S+ /, '')
        .replace(/\n[\s\S]*$/, ''),
    ) as BackupHeader
  return {
    dir,
    cli,
    path: (name) => join(dir, name),
    textOf: (file) => text(file).replace(/^.*\n/, ''),
    headerOf,
    rewrite: (file, change, seeds = headerOf(file).secrets.SVC_LOG_KEY?.split(',')) => {
      const content = gzipSync(change(text(file)))
      const keys = (seeds ?? []).map(seededKey)
      const signers = keys.length === 0 ? [] : signersOf(firstOrigin(keys), keys)
      const seal = sealOf({ bytes: content.length, sha256: sha256Hex(content) }, signers)
      writeFileSync(file, Buffer.concat([content, seal]))
    },
    keyOf: (file) => /^-- key (\S+)$/m.exec(whole(file))?.[1] ?? '',
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
  readonly customer_token: string
  readonly gateway_key: string
}

/** A gateway with its own embedded PostgreSQL, in this process. */
export async function startEmbeddedGateway(dataDir: string, env: Readonly<Record<string, string>> = {}) {
  const server = await start(
    {
      SVC_DATA_DIR: await prepareFolder(dataDir),
      SVC_PORT: '0',
      SVC_DISCOVER: 'false',
      SVC_WARM_UP: 'false',
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
