import { startGateway } from '../actors/gateway.ts'
import type { GatewayParts, RunningGateway } from '../actors/gateway-handle.ts'
import { descriptors } from '../host/descriptors.ts'
import { createApp } from '../http/app.ts'
import { createPeerApp } from '../http/peer-app.ts'
import { watchDescriptors } from '../listener/descriptor-watch.ts'
import type { Cleanup } from './cleanup.ts'
import { answered, listen } from './listening.ts'

/** The last events of streams may take so long to leave, ms. */
const lastBytesMs = 500

/** A process that answers requests. */
export interface Serving {
  readonly gateway: RunningGateway
  readonly port: number
  /**
   * Ordered: no new work, in-flight ends within the grace, actors, database. `handOver`: nodes that dialled in move to
   * another process or gateway first, where there is one.
   */
  stop(handOver: boolean): Promise<void>
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
  const stop = async (handOver: boolean) => {
    gateway.beginStop()
    log.info('stopping')
    if (handOver) await gateway.handOver()
    const drained = server.stop()
    await answered([server, ...doors], config.SVC_SHUTDOWN_GRACE_MS)
    await gateway.endCalls()
    gateway.endTunnels()
    await Promise.race([drained, Bun.sleep(lastBytesMs)])
    await cleanup.run()
  }
  return {
    gateway,
    port,
    stop: (handOver) => {
      stopping ??= stop(handOver)
      return stopping
    },
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
