import { descriptors } from '../host/descriptors.ts'
import type { Loop } from '../host/loop.ts'
import { portInUse } from '../host/port-holder.ts'
import type { PrivateFolder } from '../host/private-files.ts'
import type { RuntimeId } from '../ids.ts'
import { Closing } from '../listener/closing.ts'
import { watchDescriptors } from '../listener/descriptor-watch.ts'
import { loadTransportKeys, type TransportKeys } from './commands/transport-keys.ts'
import { type HardwareWatch, watchHardware } from './hardware/hardware-watch.ts'
import { NodeStartError } from './membership/enrollment.ts'
import { type Identity, loadIdentity } from './membership/identity.ts'
import type { Place } from './membership/membership.ts'
import type { NodeOptions } from './node-options.ts'
import { Power } from './power/power.ts'
import { type CopyGateway, createCopyGateway } from './pulls/copy-gateway.ts'
import { GivenModels } from './pulls/given-models.ts'
import { type PullParts, Pulls } from './pulls/pulls.ts'
import { createTurn } from './pulls/turns.ts'
import { lexicalRuntime } from './rerank/lexical-runtime.ts'
import { createRoutes, type Served } from './routes.ts'
import { type RuntimeTimes, runtimeTimes } from './runtimes/local-runtime.ts'
import { type BuiltIn, type RuntimeSet, startRuntimes } from './runtimes/runtime-set.ts'
import { loadSealedKeys } from './sealed/sealed-keys.ts'
import { type ModelServers, startModelServers } from './servers/model-servers.ts'
import type { ModelsFile } from './servers/models-file.ts'
import { watchModels } from './servers/models-watch.ts'
import { ServerRuntime } from './servers/server-runtime.ts'
import { serverTimes } from './servers/server-times.ts'

/** What a person can do about a socket that cannot be opened. */
export function listenFault(error: unknown, port: number): unknown {
  const code = String((error as { code?: unknown }).code)
  if (code === 'EADDRINUSE') return new NodeStartError(`${portInUse(port)}, or choose another port with --listen.`)
  if (code === 'EACCES') return new NodeStartError(`This user may not use port ${port}. Choose a port above 1023.`)
  if (code === 'EADDRNOTAVAIL') return new NodeStartError('--listen is not an address of this computer.')
  return error
}

/** Everything that a start has opened, in order. */
export interface Started {
  readonly options: NodeOptions
  readonly folder: PrivateFolder
  readonly identity: Identity
  readonly transportKeys: TransportKeys
  readonly runtimes: RuntimeSet
  readonly power: Power
  /** null without a `models.json`. */
  readonly servers: ModelServers | null
  /** Of the file. */
  readonly watching: Loop | null
  readonly hardware: HardwareWatch
  /** null: the owner lets it fetch no models. */
  readonly pulls: Pulls | null
  readonly given: GivenModels
  readonly served: Served
  readonly port: number
  readonly closing: Closing
  readonly unlock: () => void
  readonly unwatch: () => void
}

export interface Opening {
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

/** A model that is fetched is one of `models.json`: without that file there is nowhere to put it. */
const pullsOf = (
  { pulls, log }: NodeOptions,
  parts: Omit<PullParts, 'options' | 'log'>,
  hasFile: boolean,
): Pulls | null =>
  pulls === undefined || pulls.sources.length === 0 || !hasFile ? null : new Pulls({ ...parts, options: pulls, log })

/** The gateway through which models of other nodes come. */
function copyGateway({ membership }: Place, { key }: Identity): CopyGateway | null {
  if (membership === null) return null
  return createCopyGateway(membership.enrollment.gateway_url, membership.nodeId, key)
}

/** Starts the model servers, looks at the others, and listens. Rejects as the first step that fails, when the earlier ones are undone. */
export async function openNode(options: NodeOptions, { folder, models, place, unlock }: Opening): Promise<Started> {
  const { log, hostname } = options
  const identity = loadIdentity(folder)
  const transportKeys = loadTransportKeys({ folder, identity: identity.key })
  const sealedKeys = await loadSealedKeys({
    folder,
    identity: identity.key,
    ...(options.sealedKeyTimes === undefined ? {} : { times: options.sealedKeyTimes }),
  })
  const times = options.serverTimes === undefined ? {} : { times: options.serverTimes }
  const servers =
    models === null
      ? null
      : await startModelServers({ file: models, folder, log, toolPath: options.hardware?.path, ...times })
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
    kvEvents: options.kvEvents ?? [],
    discover: options.discover,
    ownPort: options.port,
    builtIn: builtIn(),
    serverPorts: portsIn(models),
    ...(options.discoverMs === undefined ? {} : { discoverMs: options.discoverMs }),
    ...(options.runtimeTimes === undefined ? {} : { times: options.runtimeTimes }),
  })
  let served: Served | null = null
  const turn = createTurn(() => served !== null && (served.chat.isAwaited || served.sealed.isAwaited))
  const gateway = () => copyGateway(place, identity)
  const pulls = pullsOf(options, { folder, gateway, turn }, servers !== null)
  const hardware = watchHardware({ folder: folder.path, ...options.hardware })
  let opened: Power | null = null
  const given = new GivenModels({
    folder: folder.path,
    isAllowed: options.givesModels === true && servers !== null,
    takesWork: () => opened?.takesWork === true,
    turn,
  })
  try {
    const hasGateway = () => place.membership !== null
    const isMoving = () => pulls?.isBusy === true || given.isBusy
    const power: Power = new Power({ options: options.power ?? {}, runtimes, hasGateway, isMoving, log })
    opened = power
    await power.start()
    const budgetMb = () => servers?.budgetMb ?? null
    served = createRoutes({
      folder,
      identity,
      transportKeys,
      sealedKeys,
      sealedTimes: options.sealedTimes,
      attest: options.attest,
      runtimes,
      power,
      wakesOthers: options.power?.wakesOthers === true,
      pulls,
      given,
      place,
      budgetMb,
      hardware: hardware.now,
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
      power,
      servers,
      watching,
      hardware,
      pulls,
      given,
      served,
      port,
      closing,
      unlock,
      unwatch,
    }
  } catch (error) {
    await hardware.stop()
    await opened?.stop()
    runtimes.stop()
    await servers?.stop()
    throw error
  }
}

/** The opposite, in its order. */
export async function closeNode({
  options,
  runtimes,
  power,
  servers,
  watching,
  hardware,
  pulls,
  given,
  served,
  unlock,
  unwatch,
}: Started): Promise<void> {
  unwatch()
  await pulls?.stop()
  given.stop()
  await watching?.stop()
  await hardware.stop()
  await power.stop()
  await served.routes.app.server?.stop(true)
  runtimes.stop()
  await servers?.stop()
  unlock()
  options.log.flush()
}
