import { homedir } from 'node:os'
import { join } from 'node:path'
import { product } from '../brand.ts'
import { descriptors } from '../host/descriptors.ts'
import type { Loop } from '../host/loop.ts'
import { portInUse } from '../host/port-holder.ts'
import { openPrivateFolder, type PrivateFolder } from '../host/private-files.ts'
import type { RuntimeId } from '../ids.ts'
import { Closing } from '../listener/closing.ts'
import { watchDescriptors } from '../listener/descriptor-watch.ts'
import { parseNoteKey } from '../protocol/log/note.ts'
import { nodeBaseUrl } from '../transport/http1/direct.ts'
import { loadTransportKeys, type TransportKeys } from './commands/transport-keys.ts'
import { NodeStartError } from './membership/enrollment.ts'
import { lockFolder } from './membership/folder-lock.ts'
import { type Identity, loadIdentity } from './membership/identity.ts'
import { checkJoining, enrolled, type JoinOptions } from './membership/joining.ts'
import { createMembership, type Membership, type Place } from './membership/membership.ts'
import type { PayeeWatch } from './membership/payee-watch.ts'
import { lexicalRuntime } from './rerank/lexical-runtime.ts'
import { createRoutes, type Served } from './routes.ts'
import { type RuntimeTimes, runtimeTimes } from './runtimes/local-runtime.ts'
import {
  type BuiltIn,
  type DeclaredRanker,
  type RuntimeKey,
  type RuntimeSet,
  startRuntimes,
} from './runtimes/runtime-set.ts'
import { loadSealedKeys, type SealedKeyTimes } from './sealed/sealed-keys.ts'
import type { SealedTimes } from './sealed/sealed-stream.ts'
import { type ServerTimes, serverTimes } from './servers/model-server.ts'
import { type ModelServers, startModelServers } from './servers/model-servers.ts'
import { loadModels, type ModelsFile } from './servers/models-file.ts'
import { watchModels } from './servers/models-watch.ts'
import { ServerRuntime } from './servers/server-runtime.ts'
import { type NodeTunnel, startTunnel } from './tunnel/tunnel-client.ts'

export interface NodeOptions extends JoinOptions {
  readonly dataDir: string
  readonly hostname: string
  /** 0: any free one. */
  readonly port: number
  /** Base URLs of model servers. */
  readonly runtimes: readonly string[]
  /** Model servers that rerank documents but do not say so. */
  readonly rankers?: readonly DeclaredRanker[]
  /** Keys of model servers that need one. */
  readonly runtimeKeys?: readonly RuntimeKey[]
  /** Look for model servers on loopback. */
  readonly discover: boolean
  readonly runtimeTimes?: RuntimeTimes
  /** The time between two looks at loopback, ms. */
  readonly discoverMs?: number
  /** How long the agent still takes new work at the stop, ms. */
  readonly drainMs?: number
  /** How long running work may take at the stop, ms. */
  readonly graceMs?: number
  readonly serverTimes?: Partial<ServerTimes>
  readonly sealedTimes?: SealedTimes
  readonly sealedKeyTimes?: SealedKeyTimes
  /** Keys of logs that the owner has this node witness, as `name+hash+base64`, beside the one of the enrolment. */
  readonly logKeys?: readonly string[]
  /** How long the hashes of the receipts that this node signs are kept. */
  readonly receiptDays?: number
}

export interface RunningNode {
  /** null if the agent belongs to no gateway and serves its own computer alone. */
  readonly nodeId: string | null
  /** True if the node was already enrolled, so that a given token was not used. */
  readonly enrolledBefore: boolean
  readonly fingerprint: string
  /** Its key as a witness of its gateway's log, as verifiers are given it: `name+hash+base64`. */
  readonly witnessKey: string
  /** `local_base_url`. */
  readonly url: string
  readonly port: number
  readonly folder: string
  /** The routes, without a socket. */
  handle(request: Request): Promise<Response>
  readonly runtimes: RuntimeSet
  readonly transportKeys: TransportKeys
  /** null if the gateway calls this agent at its `endpoint_url`, or if there is no gateway. */
  readonly tunnel: NodeTunnel | null
  /** Looks after what this node earns; null if there is no gateway. */
  readonly payeeWatch: PayeeWatch | null
  /** Resolves when an operator has revoked or removed the node, as the gateway says over the tunnel. */
  readonly revoked: Promise<void>
  /** Stops in order: says so, accepts nothing new, lets running work end, then closes tunnel, port and polls. */
  stop(): Promise<void>
}

const drainMsDefault = 300
const graceMsDefault = 30_000

/** The default folder for the agent's keys. */
export function nodeFolderPath(env: Readonly<Record<string, string | undefined>>): string {
  const data = env.XDG_DATA_HOME
  return join(data !== undefined && data !== '' ? data : join(homedir(), '.local', 'share'), product, 'node')
}

function listenFault(error: unknown, port: number): unknown {
  const code = String((error as { code?: unknown }).code)
  if (code === 'EADDRINUSE') return new NodeStartError(`${portInUse(port)}, or choose another port with --listen.`)
  if (code === 'EACCES') return new NodeStartError(`This user may not use port ${port}. Choose a port above 1023.`)
  if (code === 'EADDRNOTAVAIL') return new NodeStartError('--listen is not an address of this computer.')
  return error
}

/** Everything that a start has opened, in order. */
interface Started {
  readonly options: NodeOptions
  readonly folder: PrivateFolder
  readonly identity: Identity
  readonly transportKeys: TransportKeys
  readonly runtimes: RuntimeSet
  /** null without a `models.json`. */
  readonly servers: ModelServers | null
  /** Of the file. */
  readonly watching: Loop | null
  readonly served: Served
  readonly port: number
  readonly closing: Closing
  readonly unlock: () => void
  readonly unwatch: () => void
}

function checkGiven({ runtimes, rankers = [], runtimeKeys = [], logKeys = [] }: NodeOptions): void {
  if (logKeys.some((key) => parseNoteKey(key) === null)) {
    throw new NodeStartError('--log-key takes the key of a public log, like svc-log/…+…+…')
  }
  for (const url of [...runtimes, ...[...rankers, ...runtimeKeys].map((given) => given.url)]) {
    if (nodeBaseUrl(url) !== null) continue
    throw new NodeStartError('--runtime, --rerank and --runtime-key take addresses like http://127.0.0.1:8000')
  }
}

/**
 * Starts the agent. If a later step fails, the earlier ones are undone. It listens before it enrols: a gateway that may
 * call it directly does so at once. Throws `NodeStartError`, `PrivateFileError`.
 */
export async function startNode(options: NodeOptions): Promise<RunningNode> {
  checkGiven(options)
  const folder = openPrivateFolder(options.dataDir)
  const models = loadModels(folder.path)
  const enrolledBefore = checkJoining(options, folder)
  const unlock = lockFolder(folder)
  const place = { membership: null as Membership | null, decided: Promise.resolve() as Promise<unknown> }
  const started = await open(options, { folder, models, place, unlock }).catch((error: unknown) => {
    unlock()
    throw listenFault(error, options.port)
  })
  const { identity, transportKeys, served } = started
  const joining = enrolled(options, folder, { identity, transportKeys }).then((enrollment) => {
    if (enrollment === null) return
    served.witnessed.give(enrollment.log_keys ?? [])
    place.membership = createMembership({ ...served, enrollment, identity, folder, log: options.log })
  })
  place.decided = joining.catch(() => {})
  try {
    await joining
  } catch (error) {
    await close(started)
    throw error
  }
  return { ...running(started, place.membership), enrolledBefore }
}

interface Opening {
  readonly folder: PrivateFolder
  readonly models: ModelsFile | null
  readonly place: Place
  readonly unlock: () => void
}

/** One runtime for each model of `models.json`. */
function serverRuntimes(servers: ModelServers, times: RuntimeTimes): BuiltIn {
  const made = servers.list.map(({ model: { id: modelId } }) => {
    const make = (runtimeId: RuntimeId, changed: () => void) =>
      new ServerRuntime({ runtimeId, servers, modelId, times, changed })
    return [`model:${modelId}`, make] as const
  })
  return Object.fromEntries(made)
}

const portsIn = (file: ModelsFile | null) =>
  (file?.models ?? []).map(({ port }) => port).filter((port) => typeof port === 'number')

async function open(options: NodeOptions, { folder, models, place, unlock }: Opening): Promise<Started> {
  const { log, hostname } = options
  const identity = loadIdentity(folder)
  const transportKeys = loadTransportKeys({ folder, identity: identity.key })
  const sealedKeys = await loadSealedKeys({
    folder,
    identity: identity.key,
    ...(options.sealedKeyTimes === undefined ? {} : { times: options.sealedKeyTimes }),
  })
  const given = options.serverTimes === undefined ? {} : { times: options.serverTimes }
  const servers = models === null ? null : await startModelServers({ file: models, folder, log, ...given })
  const builtIn = () => ({
    lexical: lexicalRuntime,
    ...(servers === null ? {} : serverRuntimes(servers, options.runtimeTimes ?? runtimeTimes)),
  })
  const runtimes = await startRuntimes({
    folder,
    log,
    urls: options.runtimes,
    rankers: options.rankers ?? [],
    keys: options.runtimeKeys ?? [],
    discover: options.discover,
    ownPort: options.port,
    builtIn: builtIn(),
    serverPorts: portsIn(models),
    ...(options.discoverMs === undefined ? {} : { discoverMs: options.discoverMs }),
    ...(options.runtimeTimes === undefined ? {} : { times: options.runtimeTimes }),
  })
  try {
    const budgetMb = () => servers?.budgetMb ?? null
    const served = createRoutes({
      folder,
      identity,
      transportKeys,
      sealedKeys,
      sealedTimes: options.sealedTimes,
      runtimes,
      place,
      budgetMb,
      log,
      days: options.receiptDays,
    })
    served.witnessed.give(options.logKeys ?? [])
    const { app } = served.routes
    app.listen({ hostname, port: options.port, reusePort: false })
    const port = app.server?.port ?? options.port
    const closing = new Closing(app.server === null ? [] : [app.server])
    const unwatch = watchDescriptors(descriptors, { server: () => app.server, log })
    log.info('listening', { port })
    const adopted = (file: ModelsFile) => runtimes.serve(builtIn(), portsIn(file))
    const everyMs = options.serverTimes?.fileMs ?? serverTimes.fileMs
    const watching = servers === null ? null : watchModels({ folder: folder.path, servers, everyMs, log, adopted })
    return {
      options,
      folder,
      identity,
      transportKeys,
      runtimes,
      servers,
      watching,
      served,
      port,
      closing,
      unlock,
      unwatch,
    }
  } catch (error) {
    runtimes.stop()
    await servers?.stop()
    throw error
  }
}

function openTunnel(
  { options, identity, runtimes, served }: Started,
  membership: Membership,
  revoked: () => void,
): NodeTunnel | null {
  const { enrollment, nodeId } = membership
  if (enrollment.endpoint_url !== null) return null
  const tunnel = startTunnel({
    url: enrollment.tunnel_url,
    nodeId,
    sign: identity.key.sign,
    routerKid: membership.routerKid,
    handle: served.routes.handle,
    // This is only a hint, after which the gateway asks for the signed status.
    status: () => '{"changed":true}',
    revoked,
    log: (event, fields) => options.log.info(event, fields),
  })
  runtimes.onChange(() => tunnel.statusChanged())
  return tunnel
}

function running(started: Started, membership: Membership | null): Omit<RunningNode, 'enrolledBefore'> {
  const { options, identity, runtimes, port, served } = started
  const revoked = Promise.withResolvers<void>()
  const tunnel = membership === null ? null : openTunnel(started, membership, revoked.resolve)
  const { payeeWatch = null, watches = [] } = membership ?? {}
  for (const watch of watches) watch.start()
  let stopping: Promise<void> | null = null
  return {
    nodeId: membership?.nodeId ?? null,
    fingerprint: identity.fingerprint,
    witnessKey: served.witnessKey,
    url: `http://${options.hostname.includes(':') ? `[${options.hostname}]` : options.hostname}:${port}`,
    port,
    folder: started.folder.path,
    handle: served.routes.handle,
    runtimes,
    transportKeys: started.transportKeys,
    tunnel,
    payeeWatch,
    revoked: revoked.promise,
    stop: () => {
      for (const watch of watches) void watch.stop()
      stopping ??= stopOrderly(started, tunnel)
      return stopping
    },
  }
}

/** How long the last bytes of cut answers may take, ms. */
const lastBytesMs = 500

async function stopOrderly(started: Started, tunnel: NodeTunnel | null): Promise<void> {
  const { served, closing } = started
  const { log, drainMs = drainMsDefault, graceMs = graceMsDefault } = started.options
  log.info('stopping')
  served.beginStop()
  tunnel?.statusChanged()
  closing.begin()
  await Bun.sleep(drainMs)
  await closing.close()
  // From here on the tunnel accepts nothing new. It closes after its last stream.
  // The gateway repeats a job that is cut here with a new attempt. The key of the cut one stays used.
  await served.commands.stop()
  await Promise.all([
    served.chat.stop(graceMs),
    served.sealed.stop(graceMs),
    served.reranker.stop(graceMs),
    tunnel?.stop(graceMs + lastBytesMs),
  ])
  await closing.quiet(lastBytesMs)
  await close(started)
}

async function close({ options, runtimes, servers, watching, served, unlock, unwatch }: Started): Promise<void> {
  unwatch()
  await watching?.stop()
  await served.routes.app.server?.stop(true)
  runtimes.stop()
  await servers?.stop()
  unlock()
  options.log.flush()
}
