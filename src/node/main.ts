import { homedir } from 'node:os'
import { join } from 'node:path'
import { product } from '../brand.ts'
import { folders } from '../host/platform/platforms.ts'
import { openPrivateFolder } from '../host/private-files.ts'
import { parseNoteKey } from '../protocol/log/note.ts'
import { nodeBaseUrl } from '../transport/http1/direct.ts'
import { checkAttest } from './attestation/attester.ts'
import type { TransportKeys } from './commands/transport-keys.ts'
import type { HardwareWatch } from './hardware/hardware-watch.ts'
import { NodeStartError } from './membership/enrollment.ts'
import { lockFolder } from './membership/folder-lock.ts'
import { checkJoining, enrolled } from './membership/joining.ts'
import { createMembership, type Membership } from './membership/membership.ts'
import type { PayeeWatch } from './membership/payee-watch.ts'
import type { NodeOptions } from './node-options.ts'
import { closeNode, listenFault, openNode, type Started } from './open-node.ts'
import type { RuntimeSet } from './runtimes/runtime-set.ts'
import { loadModels } from './servers/models-reading.ts'
import { type NodeTunnel, startTunnel } from './tunnel/tunnel-client.ts'

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
  readonly hardware: Pick<HardwareWatch, 'look'>
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

type GivenServers = Pick<NodeOptions, 'runtimes' | 'rankers' | 'runtimeKeys' | 'kvEvents' | 'logKeys' | 'attest'>

const drainMsDefault = 300
const graceMsDefault = 30_000

/** The default folder for the agent's keys. */
export function nodeFolderPath(env: Readonly<Record<string, string | undefined>>): string {
  return join(folders(env, homedir()).data, product, 'node')
}

/** Throws `NodeStartError` for what no start can use. */
export function checkGiven({
  runtimes,
  rankers = [],
  runtimeKeys = [],
  kvEvents = [],
  logKeys = [],
  attest,
}: GivenServers): void {
  if (attest !== undefined) checkAttest(attest)
  if (logKeys.some((key) => parseNoteKey(key) === null)) {
    throw new NodeStartError('--log-key takes the key of a public log, like svc-log/…+…+…')
  }
  for (const url of [...runtimes, ...[...rankers, ...runtimeKeys, ...kvEvents].map((given) => given.url)]) {
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
  const started = await openNode(options, { folder, models, place, unlock }).catch((error: unknown) => {
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
    await closeNode(started)
    throw error
  }
  return { ...running(started, place.membership), enrolledBefore }
}

function openTunnel(
  { options, identity, runtimes, power, served }: Started,
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
  power.onChange(() => tunnel.statusChanged())
  // Its connection stood still while the gateway has given it up.
  power.onJump(() => tunnel.dialAnew())
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
    hardware: started.hardware,
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
  await closeNode(started)
}
