import { randomFrom } from '../../../bench/conversations.ts'
import type { Clock } from '../../../src/clock.ts'
import { start } from '../../../src/main.ts'
import { newToken } from '../../../src/secrets.ts'
import { type TestDatabase, testDatabase } from '../run/postgres.ts'
import { waitFor } from '../run/wait-until.ts'

export interface TestGateway {
  /** Without a slash at the end. */
  readonly url: string
  /** Of Ollama's interface; null: the settings leave it off. */
  readonly ollamaUrl: string | null
  readonly database: TestDatabase
  readonly tokens: { readonly admin: string; readonly operator: string; readonly viewer: string }
  /** The environment it was started with: another gateway on the same database is `startTestGateway({ beside })`. */
  readonly env: Readonly<Record<string, string>>
  /** An admin call; throws with status and body unless 2xx. */
  admin<T = Record<string, unknown>>(method: string, path: string, body?: unknown, token?: string): Promise<T>
  /** A customer of its own with one key. */
  customer(options?: CustomerOptions): Promise<TestCustomer>
  /** Registers a node and waits until its models can be called. */
  node(url: string, options?: NodeOptions): Promise<string>
  chat(key: string, body: object, init?: RequestInit): Promise<Response>
  stop(): Promise<void>
}

/** Where the gateway runs; by default in this process, with the same dice in every run. `env` is all that the gateway is told. */
export type Launch = (env: Readonly<Record<string, string>>) => Promise<Launched>
interface Launched {
  readonly url: string
  readonly ollamaUrl?: string | null
  stop(): Promise<void>
}

export interface TestGatewayOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly beside?: TestGateway
  readonly launch?: Launch
  /** Unix ms: the clock of accounts, keys and jobs, for a gateway in this process. */
  readonly now?: () => number
  /** Of the watch over alerts, for a gateway in this process. */
  readonly alertClock?: Clock
}

export interface CustomerOptions {
  readonly policy?: object
  readonly keyPolicy?: object
  readonly nodeScope?: readonly string[]
}

export interface TestCustomer {
  readonly customerId: string
  readonly customerToken: string
  readonly key: string
  readonly keyId: string
}

export interface NodeOptions {
  readonly customerId?: string
  readonly visibility?: 'private' | 'public'
  readonly privacyClass?: 'public' | 'trusted' | 'private'
  readonly nodeClass?: string
  readonly apiKey?: string
  /** Kinds of work by model. */
  readonly serves?: object
  /** Do not wait until it is ready. */
  readonly unready?: boolean
}

/**
 * Polls fast, so that tests follow events and not the default clock, and starts cold. A node that a busy machine keeps
 * waiting is still well. Every other setting stands as shipped.
 */
const quick = {
  SVC_PORT: '0',
  SVC_DISCOVER: 'false',
  SVC_WARM_UP: 'false',
  SVC_LOG_LEVEL: 'silent',
  SVC_POLL_INTERVAL_MS: '100',
  SVC_PROBE_TIMEOUT_MS: '15000',
  SVC_STALE_AFTER_MS: '60000',
  SVC_OFFLINE_AFTER_MS: '120000',
  SVC_DRAIN_MS: '300',
  SVC_SHUTDOWN_GRACE_MS: '2000',
}
/** `PENSTOCK_TEST_PROCESSES=2`: every gateway of the run is so many processes, but for those with a clock or peers of their own. */
const processes = process.env.PENSTOCK_TEST_PROCESSES ?? '1'
/** What is one gateway's own affair (its count of a node's slots) is no test of several processes. */
export const several = processes !== '1'
/** A look at every process, as good as certain: each goes to any of two. */
const looks = several ? 16 : 1

export { waitFor }

/** A whole gateway in this process on a database of its own: the real `start`, listening on a free port. */
export async function startTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const database = options.beside?.database ?? (await testDatabase({ kind: 'started' }))
  const tokens = options.beside?.tokens ?? {
    admin: newToken('admin'),
    operator: newToken('operator'),
    viewer: newToken('viewer'),
  }
  const env: Record<string, string> = {
    ...quick,
    DATABASE_URL: database.url,
    SVC_TOKEN_PEPPER: 'test-pepper',
    SVC_SECRETS_KEY: 'test-secrets-key',
    SVC_AUDIT_KEY: 'test-audit-key',
    SVC_ROUTER_KEY: '22'.repeat(32),
    SVC_WEBHOOK_KEY: '33'.repeat(32),
    SVC_LOG_KEY: '77'.repeat(32),
    SVC_ADMIN_TOKENS: tokens.admin,
    SVC_OPERATOR_TOKENS: tokens.operator,
    SVC_VIEWER_TOKENS: tokens.viewer,
    ...(!several ||
    options.now !== undefined ||
    options.alertClock !== undefined ||
    options.env?.SVC_PEER_URL !== undefined
      ? {}
      : { SVC_PROCESSES: processes }),
    ...options.env,
  }
  const { now, alertClock } = options
  const world = {
    random: randomFrom(1),
    ...(now === undefined ? {} : { now }),
    ...(alertClock === undefined ? {} : { alertClock }),
  }
  const launch: Launch = options.launch ?? ((given) => start(given, { quiet: true, world }))
  const server = await launch(env)
  const { url, ollamaUrl = null } = server
  let own: TestCustomer | null = null

  const admin: TestGateway['admin'] = async <T>(method: string, path: string, body?: unknown, token = tokens.admin) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'x-svc-admin-token': token, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return (text === '' ? {} : JSON.parse(text)) as T
  }
  const stateOf = async (nodeId: string): Promise<string | null> => {
    const init = { keepalive: looks === 1, headers: { 'x-svc-admin-token': tokens.admin } }
    const response = await fetch(`${url}/v1/admin/nodes/${nodeId}`, init)
    const node = (await response.json()) as { readonly state?: string }
    return response.ok ? (node.state ?? null) : null
  }
  const customer: TestGateway['customer'] = async ({ policy, keyPolicy, nodeScope } = {}) => {
    const made = await admin<{ customer_id: string; customer_token: string }>('POST', '/v1/admin/customers', {
      display_name: 'test',
      ...(policy === undefined ? {} : { gateway_policy: policy }),
    })
    const { customer_id: customerId } = made
    const issued = await admin<{ gateway_key: string; key_id: string }>(
      'POST',
      `/v1/admin/customers/${customerId}/keys`,
      {
        name: 'test',
        ...(keyPolicy === undefined ? {} : { model_policy: keyPolicy }),
        ...(nodeScope === undefined ? {} : { node_scope: nodeScope }),
      },
    )
    return { customerId, customerToken: made.customer_token, key: issued.gateway_key, keyId: issued.key_id }
  }
  return {
    url,
    ollamaUrl,
    database,
    tokens,
    env,
    admin,
    customer,
    node: async (nodeUrl, node = {}) => {
      if (node.customerId === undefined) own ??= await customer()
      const made = await admin<{ node_id: string }>('POST', '/v1/admin/nodes', {
        customer_id: node.customerId ?? own?.customerId,
        url: nodeUrl,
        visibility: node.visibility ?? 'private',
        privacy_class: node.privacyClass ?? 'private',
        node_class: node.nodeClass ?? 'gpu',
        ...(node.apiKey === undefined ? {} : { api_key: node.apiKey }),
        ...(node.serves === undefined ? {} : { serves: node.serves }),
      })
      const { node_id: nodeId } = made
      if (node.unready !== true) {
        await waitFor(`node ${nodeId}`, async () => {
          const seen = await Promise.all(Array.from({ length: looks }, () => stateOf(nodeId)))
          return seen.every((state) => state === 'ready')
        })
      }
      return nodeId
    },
    chat: (key, body, init = {}) =>
      fetch(`${url}/v1/api/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        ...init,
      }),
    stop: async () => {
      await server.stop()
      if (options.beside === undefined) await database.drop()
    },
  }
}
