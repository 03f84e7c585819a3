import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bunSettings } from '../src/host/bun-settings.ts'
import { descendants, launch, type Mock, type Program, RigError, root, saidBy, temporaryFolder, until } from './rig.ts'

export const model = 'bench-model'
export const targetNames = ['direct', 'raw Bun', 'Penstock'] as const
export type TargetName = (typeof targetNames)[number]

/** Something that answers chat requests. */
export interface Target {
  readonly name: string
  readonly url: string
  /** Sent as bearer token. */
  readonly key: string
  readonly model: string
  /** Sent with each request, a line each. */
  readonly headers: readonly string[]
  /** It is sent members for our own gateway, which must take them out. */
  readonly routed: boolean
  /** The process under test. */
  readonly pid: number
  /** What runs for its sake beside it; asked anew before each measurement. */
  sidePids(): readonly number[]
  stop(): Promise<void>
}

/** Asked as our own gateway is. */
export const ordinary = { model, headers: [], routed: true } as const

/** The client on the node itself: the limit of the rig. Its CPU is the mock's. */
export const direct = (mock: Mock): Target => ({
  name: 'direct',
  url: `${mock.url(0)}/v1/chat/completions`,
  key: 'bench-key',
  ...ordinary,
  pid: mock.pid,
  sidePids: () => [],
  stop: async () => {},
})

export async function startRaw(mock: Mock, cpu: string | null): Promise<Target> {
  const port = freePort()
  const url = `http://127.0.0.1:${port}`
  const program = launch([process.execPath, join(import.meta.dir, 'rig', 'raw-bun.ts')], {
    cpu,
    env: { PORT: String(port), UPSTREAM: mock.url(1) },
  })
  await until('the raw pass-through', async () => (await fetch(`${url}/v1/models`)).ok)
  return {
    name: 'raw Bun',
    url: `${url}/v1/chat/completions`,
    key: 'bench-key',
    ...ordinary,
    pid: program.pid,
    sidePids: () => [],
    stop: program.stop,
  }
}

/** Sockets are opened without SO_REUSEPORT, so another program can only take it in the moment in between. */
export function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } })
  listener.stop()
  return listener.port
}

export interface GatewayOptions {
  readonly cpu: string | null
  readonly limits?: boolean
  readonly env?: Readonly<Record<string, string>>
}

/**
 * The whole gateway in a process of its own on its embedded database, as `npm start` runs it: authentication, policy,
 * routing, allow-list, usage, receipts, metrics, a log line per request. The nodes belong to the account of the key.
 * What it returns starts it, again and again on the same data.
 */
export function gatewayOn(nodes: readonly string[], options: GatewayOptions): () => Promise<Target> {
  const folder = temporaryFolder()
  const logFile = join(folder, 'gateway.log')
  let key: string | null = null
  return async () => {
    const { program, url } = await startGateway(join(folder, 'data'), logFile, options.cpu, options.env)
    const admin = adminOf(url, join(folder, 'data', 'credentials.json'))
    key ??= await furnish(admin, nodes, options.limits === true)
    await until('the nodes to be ready', async () => (await readyNodes(admin)) === nodes.length)
    return {
      name: 'Penstock',
      url: `${url}/v1/api/chat/completions`,
      key,
      ...ordinary,
      pid: program.pid,
      sidePids: () => descendants(program.pid),
      stop: program.stop,
    }
  }
}

export async function startGateway(
  dataDir: string,
  logFile: string,
  cpu: string | null,
  env: Readonly<Record<string, string>> = {},
  preload: readonly string[] = [],
): Promise<{ readonly program: Program; readonly url: string }> {
  const log = openSync(logFile, 'w')
  const before = preload.flatMap((file) => ['--preload', file])
  const program = launch([process.execPath, ...before, join(root, 'src', 'main.ts')], {
    cpu,
    stderr: log,
    env: {
      ...bunSettings,
      SVC_DATA_DIR: dataDir,
      SVC_PORT: '0',
      SVC_DISCOVER: 'false',
      SVC_DEMO: 'never',
      SVC_LOG_LEVEL: 'info',
      SVC_SHUTDOWN_GRACE_MS: '1000',
      ...env,
    },
  })
  closeSync(log)
  try {
    const said = await saidBy(program, /OpenAI base (http:\/\/\S+?)\/v1(?:\/api)?\s/)
    return { program, url: said[1] ?? '' }
  } catch (error) {
    const reason = error instanceof Error ? error.message : ''
    throw new RigError(`Penstock: ${reason}\n${readFileSync(logFile, 'utf8').slice(-2_000)}`)
  }
}

export type Admin = <T>(method: string, path: string, body?: object) => Promise<T>

export function adminOf(url: string, credentialsFile: string): Admin {
  const { admin_token } = JSON.parse(readFileSync(credentialsFile, 'utf8')) as { readonly admin_token: string }
  return adminWith(url, admin_token)
}

export function adminWith(url: string, token: string): Admin {
  return async <T>(method: string, path: string, body?: object) => {
    const answer = await fetch(`${url}/v1/admin${path}`, {
      method,
      headers: { 'x-svc-admin-token': token, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!answer.ok) throw new RigError(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as T
  }
}

/** An account with a policy, a key with one of its own, and the nodes; returns the key. */
export async function furnish(admin: Admin, nodes: readonly string[], limits: boolean): Promise<string> {
  const { customer_id } = await admin<{ readonly customer_id: string }>('POST', '/customers', {
    display_name: 'bench',
    gateway_policy: {
      denied_models: ['expensive/*'],
      ...(limits ? { daily_token_quota: 1_000_000_000_000, max_concurrency: 100_000 } : {}),
    },
  })
  const made = await admin<{ readonly gateway_key: string }>('POST', `/customers/${customer_id}/keys`, {
    name: 'bench',
    model_policy: { allowed_models: [model, 'other/*'], route_tiers: ['gpu'] },
  })
  for (const url of nodes) {
    await admin('POST', '/nodes', {
      customer_id,
      url,
      visibility: 'private',
      privacy_class: 'private',
      node_class: 'gpu',
    })
  }
  return made.gateway_key
}

async function readyNodes(admin: Admin): Promise<number> {
  const { nodes } = await admin<{ readonly nodes: readonly { readonly state: string }[] }>('GET', '/nodes')
  return nodes.filter(({ state }) => state === 'ready').length
}
