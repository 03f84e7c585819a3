import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Log } from '../actors/log.ts'
import { nodeBaseUrl } from '../actors/transport/direct.ts'
import { product } from '../brand.ts'
import { openPrivateFolder, type PrivateFolder } from '../private-files.ts'
import {
  checkedGatewayUrl,
  checkSecure,
  type Enrollment,
  enroll,
  NodeStartError,
  readEnrollment,
} from './enrollment.ts'
import { type Identity, loadIdentity } from './identity.ts'
import { lexicalRuntime } from './lexical-runtime.ts'
import type { RuntimeTimes } from './local-runtime.ts'
import { createRoutes, type Served, type Started } from './routes.ts'
import { type DeclaredRanker, type RuntimeSet, startRuntimes } from './runtime-set.ts'
import { loadTransportKeys, type TransportKeys } from './transport-keys.ts'
import { type NodeTunnel, startTunnel } from './tunnel-client.ts'

export interface NodeOptions {
  /** Of the gateway; may be absent once the folder is enrolled. */
  readonly gatewayUrl?: string
  /** `svc_enroll_…`; needed at the first start only. */
  readonly token?: string
  readonly dataDir: string
  readonly hostname: string
  /** 0: any free one. */
  readonly port: number
  /** Base URLs of model servers. */
  readonly runtimes: readonly string[]
  /** Model servers that rank and do not say so. */
  readonly rankers?: readonly DeclaredRanker[]
  /** Look for model servers on loopback. */
  readonly discover: boolean
  readonly visibility?: 'private' | 'public'
  readonly payoutAddress?: string
  /** Where the gateway may call this agent directly, if the token allows it; else it goes by the tunnel. */
  readonly endpointUrl?: string
  /** Allow a gateway without TLS beyond loopback. */
  readonly insecure?: boolean
  readonly log: Log
  readonly runtimeTimes?: RuntimeTimes
  /** Between two looks at loopback, ms. */
  readonly discoverMs?: number
  /** What runs when it stops may end within this, ms. */
  readonly graceMs?: number
}

export interface RunningNode {
  readonly nodeId: string
  readonly fingerprint: string
  /** `local_base_url`. */
  readonly url: string
  readonly port: number
  readonly folder: string
  /** The routes, without a socket. */
  handle(request: Request): Promise<Response>
  readonly runtimes: RuntimeSet
  readonly transportKeys: TransportKeys
  /** null: the gateway calls this agent at its `endpoint_url`. */
  readonly tunnel: NodeTunnel | null
  /** Ordered: nothing new, what runs may end, then tunnel, port and polls. */
  stop(): Promise<void>
}

export const nodeAddress = { hostname: '127.0.0.1', port: 7071 } as const
const graceMsDefault = 30_000

/** Where the agent keeps its keys unless it is told otherwise. */
export function nodeFolderPath(env: Readonly<Record<string, string | undefined>>): string {
  const data = env.XDG_DATA_HOME
  return join(data !== undefined && data !== '' ? data : join(homedir(), '.local', 'share'), product, 'node')
}

/** Before anything is asked of the gateway: a token is good once. */
function checkPort({ hostname, port }: NodeOptions): void {
  if (port === 0) return
  try {
    Bun.listen({ hostname, port, exclusive: true, socket: { data() {} } }).stop(true)
  } catch (error) {
    throw listenFault(error, port)
  }
}

function listenFault(error: unknown, port: number): unknown {
  const code = String((error as { code?: unknown }).code)
  if (code === 'EADDRINUSE') return new NodeStartError(`Port ${port} is in use. Choose another one with --listen.`)
  if (code === 'EACCES') return new NodeStartError(`Port ${port} may not be taken by this user. Use one above 1023.`)
  if (code === 'EADDRNOTAVAIL') return new NodeStartError('--listen is no address of this machine.')
  return error
}

async function enrolled(
  options: NodeOptions,
  folder: PrivateFolder,
  identity: Identity,
  transportKeys: TransportKeys,
): Promise<Enrollment> {
  const insecure = options.insecure === true
  const given = options.gatewayUrl === undefined ? null : checkedGatewayUrl(options.gatewayUrl, insecure)
  const known = readEnrollment(folder)
  if (known !== null) {
    if (given !== null && given !== known.gateway_url) {
      throw new NodeStartError(
        `${folder.path} belongs to a node of another gateway. Use another folder with --data-dir, or leave --gateway out.`,
      )
    }
    checkedGatewayUrl(known.gateway_url, insecure)
    return known
  }
  if (given === null) throw new NodeStartError('The first start needs --gateway and --token.')
  if (options.token === undefined) {
    throw new NodeStartError('The first start needs --token: an operator makes one with `nodes enroll`.')
  }
  const made = await enroll(
    {
      gatewayUrl: given,
      token: options.token,
      identity,
      transportKeys: transportKeys.published(),
      visibility: options.visibility ?? null,
      payoutAddress: options.payoutAddress ?? null,
      endpointUrl: options.endpointUrl ?? null,
    },
    folder,
  )
  options.log.info('enrolled', { node_id: made.node_id })
  return made
}

/** Starts the agent; what was started is stopped again when a later step fails. Throws `NodeStartError`, `PrivateFileError`. */
export async function startNode(options: NodeOptions): Promise<RunningNode> {
  for (const url of [...options.runtimes, ...(options.rankers ?? []).map((ranker) => ranker.url)]) {
    if (nodeBaseUrl(url) !== null) continue
    throw new NodeStartError('--runtime and --rerank take addresses as http://127.0.0.1:8000')
  }
  checkPort(options)
  const folder = openPrivateFolder(options.dataDir)
  const identity = loadIdentity(folder)
  const transportKeys = loadTransportKeys({ folder, identity: identity.key })
  const enrollment = await enrolled(options, folder, identity, transportKeys)
  checkSecure(new URL(enrollment.tunnel_url), options.insecure === true)
  const runtimes = await startRuntimes({
    folder,
    log: options.log,
    urls: options.runtimes,
    rankers: options.rankers ?? [],
    discover: options.discover,
    ownPort: options.port,
    builtIn: { lexical: lexicalRuntime },
    ...(options.discoverMs === undefined ? {} : { discoverMs: options.discoverMs }),
    ...(options.runtimeTimes === undefined ? {} : { times: options.runtimeTimes }),
  })
  try {
    return run({ options, folder, identity, transportKeys, enrollment, runtimes })
  } catch (error) {
    runtimes.stop()
    throw listenFault(error, options.port)
  }
}

function openTunnel({ options, identity, enrollment, runtimes }: Started, served: Served): NodeTunnel | null {
  if (enrollment.endpoint_url !== null) return null
  const tunnel = startTunnel({
    url: enrollment.tunnel_url,
    nodeId: enrollment.node_id,
    sign: identity.key.sign,
    routerKid: served.routerKid,
    handle: served.routes.handle,
    // A hint and no more: the gateway asks for the signed status.
    status: () => '{"changed":true}',
    log: (event, fields) => options.log.info(event, fields),
  })
  runtimes.onChange(() => tunnel.statusChanged())
  return tunnel
}

function run(started: Started): RunningNode {
  const { options, enrollment, identity, runtimes } = started
  const served = createRoutes(started)
  const { app } = served.routes
  app.listen({ hostname: options.hostname, port: options.port })
  const port = app.server?.port ?? options.port
  const tunnel = openTunnel(started, served)
  options.log.info('listening', { port })
  let stopping: Promise<void> | null = null
  return {
    nodeId: enrollment.node_id,
    fingerprint: identity.fingerprint,
    url: `http://${options.hostname.includes(':') ? `[${options.hostname}]` : options.hostname}:${port}`,
    port,
    folder: started.folder.path,
    handle: served.routes.handle,
    runtimes,
    transportKeys: started.transportKeys,
    tunnel,
    stop: () => {
      stopping ??= stopOrderly(started, served, tunnel)
      return stopping
    },
  }
}

/** The last bytes of what was cut may take so long to leave, ms. */
const lastBytesMs = 500

async function stopOrderly({ options, runtimes }: Started, served: Served, tunnel: NodeTunnel | null): Promise<void> {
  const { log, graceMs = graceMsDefault } = options
  log.info('stopping')
  served.beginStop()
  tunnel?.statusChanged()
  // The tunnel takes nothing new from here on, and closes after its last stream.
  // A job that is cut here is another attempt for its gateway; its key stays used up.
  await served.commands.stop()
  await Promise.all([served.chat.stop(graceMs), served.reranker.stop(graceMs), tunnel?.stop(graceMs + lastBytesMs)])
  const { server } = served.routes.app
  await Promise.race([server?.stop(), Bun.sleep(lastBytesMs)])
  await server?.stop(true)
  runtimes.stop()
  log.flush()
}
