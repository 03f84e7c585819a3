import { startGateway } from '../actors/gateway.ts'
import type { GatewayParts, RunningGateway } from '../actors/gateway-handle.ts'
import { descriptors } from '../host/descriptors.ts'
import { createApp } from '../http/app.ts'
import { createPeerApp } from '../http/peer-app.ts'
import { watchDescriptors } from '../listener/descriptor-watch.ts'
import { refuseConnections } from '../listener/listening-socket.ts'
import type { Cleanup } from './cleanup.ts'
import { answered, listen } from './listening.ts'

/** The last events of streams may take so long to leave, ms. */
const lastBytesMs = 500

/** Whoever keeps a connection busy has sent another request within this, ms. */
const quietMs = 300

/** A process that answers requests. */
export interface Serving {
  readonly gateway: RunningGateway
  readonly port: number
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
  if (place !== undefined) await gateway.listening(config.SVC_PORT)
  const server = listen(app, config, place !== undefined || !config.embedded)
  cleanup.add(() => server.stop(true))
  cleanup.add(watchDescriptors(descriptors, { server: () => server, log }))
  const port = server.port ?? config.SVC_PORT
  if (place === undefined) await gateway.listening(port)
  else gateway.listensOn(port)
  log.info('listening', { host: config.SVC_HOST, port })
  let stopping: Promise<void> | null = null
  const stop = async (leaves: boolean) => {
    const until = performance.now() + config.SVC_SHUTDOWN_GRACE_MS
    gateway.beginStop()
    log.info('stopping')
    const first = leaves && place !== undefined
    // Where processes share a port, a node that is told to move first would come back to this one.
    if (first) await leave(gateway, server, until)
    else if (leaves) await gateway.handOver()
    const drained = server.stop()
    await answered([server], until)
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
    stop: (leaves) => {
      stopping ??= stop(leaves)
      return stopping
    },
  }
}

/**
 * The other processes take what is new. Clients that keep their connection hear with their next answer that it is over:
 * Bun closes one that has been answered without a word, and a request that is on its way then is lost (seen).
 */
async function leave(gateway: RunningGateway, server: Bun.Server<unknown>, untilMs: number): Promise<void> {
  gateway.beginLeave()
  const alone = refuseConnections(server.port ?? 0)
  const until = alone ? untilMs : Math.min(untilMs, performance.now() + quietMs)
  let quietSince = performance.now()
  while (performance.now() < until && performance.now() - quietSince < quietMs) {
    await Bun.sleep(10)
    if (server.pendingRequests > 0) quietSince = performance.now()
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
