import { adminRoute } from '../actions/registry.ts'
import { startGateway } from '../actors/gateway.ts'
import type { GatewayParts, RunningGateway } from '../actors/gateway-handle.ts'
import { warmUp } from '../actors/warm-up/warm-up.ts'
import { descriptors } from '../host/descriptors.ts'
import { createApp } from '../http/app.ts'
import { createOllamaApp } from '../http/ollama/ollama-app.ts'
import { createPeerApp } from '../http/peer-app.ts'
import { openWarmDoor } from '../http/warm-door.ts'
import { watchDescriptors } from '../listener/descriptor-watch.ts'
import type { Cleanup } from './cleanup.ts'
import { Ending } from './ending.ts'
import { listen, listenAsOllama } from './listening.ts'

/** A process that answers requests. */
export interface Serving {
  readonly gateway: RunningGateway
  readonly port: number
  /** Where Ollama's interface is; null: it is off. */
  readonly ollamaUrl: string | null
  /** `/readyz` says that it ends, each answer that its connection is over; new requests are answered. */
  drain(): void
  /** Resolves when it takes no more connections, and nodes that dialled in have moved where others go on. */
  readonly closed: Promise<void>
  /**
   * Ordered: drained, no new work, in-flight ends within the grace, actors, database. `leaves`: others go on,
   * and nodes that dialled in move to them.
   */
  stop(leaves: boolean): Promise<void>
}

/** Opens the doors of a gateway, waits until its pool has been asked, and stops everything in order. */
export async function serve(parts: Omit<GatewayParts, 'policyOf'>, cleanup: Cleanup): Promise<Serving> {
  const { config, log, place } = parts
  const gateway = await startGateway({ ...parts, policyOf: adminRoute })
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
  const ending = new Ending({ gateway, servers, doors, cleanup })
  return {
    gateway,
    port,
    ollamaUrl: ollama === null ? null : ollama.url.origin,
    drain: () => ending.drain(),
    closed: ending.closed,
    stop: (leaves) => ending.stop(leaves && place !== undefined ? 'beside_others' : leaves ? 'moves_nodes' : 'last'),
  }
}

/** `/readyz` says `starting` until this has ended. */
async function becomeReady(gateway: RunningGateway, port: number): Promise<void> {
  if (gateway.config.SVC_WARM_UP) await warmUp(gateway, openWarmDoor)
  await gateway.listening(port)
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
