import { startGateway } from '../actors/gateway.ts'
import type { GatewayParts, RunningGateway } from '../actors/gateway-handle.ts'
import { warmUp } from '../actors/warm-up/warm-up.ts'
import { descriptors } from '../host/descriptors.ts'
import { createApp } from '../http/app.ts'
import { createOllamaApp } from '../http/ollama/ollama-app.ts'
import { createPeerApp } from '../http/peer-app.ts'
import { openWarmDoor } from '../http/warm-door.ts'
import { watchDescriptors } from '../listener/descriptor-watch.ts'
import { refuseConnections } from '../listener/listening-socket.ts'
import type { Cleanup } from './cleanup.ts'
import { answered, listen, listenAsOllama } from './listening.ts'

/** The last events of streams may take so long to leave, ms. */
const lastBytesMs = 500

/** Whoever keeps a connection busy has sent another request within this, ms. */
const quietMs = 300

/** A process that answers requests. */
export interface Serving {
  readonly gateway: RunningGateway
  readonly port: number
  /** Where Ollama's interface is; null: it is off. */
  readonly ollamaUrl: string | null
  /**
   * Ordered: no new work, in-flight ends within the grace, actors, database. `leaves`: others go on,
   * and nodes that dialled in move to them.
   */
  stop(leaves: boolean): Promise<void>
}

/** Opens the doors of a gateway, waits until its pool has been asked, and stops everything in order. */
export async function serve(parts: GatewayParts, cleanup: Cleanup): Promise<Serving> {
  const { config, log, place } = parts
  const gateway = await startGateway(parts)
  cleanup.add(() => gateway.stop())
  const app = createApp(gateway)
  const doors = place === undefined ? [] : place.doors.map((door) => openPeerDoor(gateway, door, cleanup))
  // One of several takes requests when it can answer them: the others do meanwhile. Alone, it must say that it starts.
  if (place !== undefined) await becomeReady(gateway, config.SVC_PORT)
  const shared = place !== undefined || !config.embedded
  const server = listen(app, config, shared)
  cleanup.add(() => server.stop(true))
  const ollama = listenAsOllama((hostname) => createOllamaApp(gateway, hostname), config, shared)
  if (ollama !== null) cleanup.add(() => ollama.stop(true))
  const servers = ollama === null ? [server] : [server, ollama]
  cleanup.add(watchDescriptors(descriptors, { server: () => server, log }))
  const port = server.port ?? config.SVC_PORT
  if (place === undefined) await becomeReady(gateway, port)
  else gateway.listensOn(port)
  log.info('listening', { host: config.SVC_HOST, port })
  if (ollama !== null) log.info('listening_as_ollama', { port: ollama.port, keyless: config.SVC_OLLAMA_KEY !== null })
  let stopping: Promise<void> | null = null
  const stop = async (leaves: boolean) => {
    const until = performance.now() + config.SVC_SHUTDOWN_GRACE_MS
    gateway.beginStop()
    log.info('stopping')
    const first = leaves && place !== undefined
    // Where processes share a port, a node that is told to move first would come back to this one.
    if (first) await leave(gateway, servers, until)
    else if (leaves) await gateway.handOver()
    const drained = Promise.all(servers.map((each) => each.stop()))
    await answered(servers, until)
    if (first) await gateway.handOver()
    await answered(doors, until)
    await gateway.endCalls()
    gateway.endTunnels()
    await Promise.race([drained, Bun.sleep(lastBytesMs)])
    await cleanup.run()
  }
  return {
    gateway,
    port,
    ollamaUrl: ollama === null ? null : ollama.url.origin,
    stop: (leaves) => {
      stopping ??= stop(leaves)
      return stopping
    },
  }
}

/** `/readyz` says `starting` until this has ended. */
async function becomeReady(gateway: RunningGateway, port: number): Promise<void> {
  if (gateway.config.SVC_WARM_UP) await warmUp(gateway, openWarmDoor)
  await gateway.listening(port)
}

/**
 * The other processes take what is new. Clients that keep their connection hear with their next answer that it is over:
 * Bun closes one that has been answered without a word, and a request that is on its way then is lost (seen).
 */
async function leave(gateway: RunningGateway, servers: readonly Bun.Server<unknown>[], untilMs: number): Promise<void> {
  gateway.beginLeave()
  const alone = servers.map(({ port }) => refuseConnections(port ?? 0)).every((done) => done)
  const until = alone ? untilMs : Math.min(untilMs, performance.now() + quietMs)
  let quietSince = performance.now()
  while (performance.now() < until && performance.now() - quietSince < quietMs) {
    await Bun.sleep(10)
    if (servers.some((server) => server.pendingRequests > 0)) quietSince = performance.now()
  }
}

type Door = NonNullable<GatewayParts['place']>['doors'][number]

function openPeerDoor(gateway: RunningGateway, door: Door, cleanup: Cleanup): Bun.Server<unknown> {
  const app = createPeerApp(gateway)
  app.listen(door as { readonly port: number })
  const { server } = app
  if (server === null) throw new Error('the door for other gateways did not open')
  cleanup.add(() => server.stop(true))
  return server
}
