import { join } from 'node:path'
import { failureName } from '../actors/log.ts'
import type { PrivateFolder } from '../private-files.ts'
import { createNodeApp, type NodeApp } from './app.ts'
import { createAskGateway } from './ask-gateway.ts'
import { openCommandStore } from './command-store.ts'
import { runByChat } from './command-work.ts'
import { type Commands, createCommands } from './commands.ts'
import type { Enrollment } from './enrollment.ts'
import { createGatewayKeys } from './gateway-keys.ts'
import type { Identity } from './identity.ts'
import { createLocalCredentials } from './local-credentials.ts'
import { loadLocalToken, localKeys } from './local-keys.ts'
import type { NodeOptions } from './main.ts'
import { createNodeChat, type NodeChat } from './node-chat.ts'
import { createReranker, type Reranker } from './rerank.ts'
import { createRouterAuth } from './router-auth.ts'
import { createRouterKeys } from './router-keys.ts'
import type { RuntimeSet } from './runtime-set.ts'
import type { TransportKeys } from './transport-keys.ts'

/** What a start has made before it serves. */
export interface Started {
  readonly options: NodeOptions
  readonly folder: PrivateFolder
  readonly identity: Identity
  readonly transportKeys: TransportKeys
  readonly enrollment: Enrollment
  readonly runtimes: RuntimeSet
}

export interface Served {
  readonly routes: NodeApp
  readonly chat: NodeChat
  readonly reranker: Reranker
  readonly commands: Commands
  /** The newest router key that this node knows. */
  routerKid(): string
  /** From then on the status says that nothing is ready. */
  beginStop(): void
}

/** The agent's routes over all that they need. */
export function createRoutes(started: Started): Served {
  const { options, folder, identity, transportKeys, enrollment, runtimes } = started
  const { log } = options
  const nodeId = enrollment.node_id
  let stopping = false
  const chat = createNodeChat({ runtimes, worker: { nodeId, identity: identity.key } })
  const reranker = createReranker({ runtimes: () => runtimes.list() })
  const routerAuth = createRouterAuth({
    nodeId,
    keys: enrollment.router_public_keys,
    unknownKey: () => void routerKeys.refresh(),
  })
  const routerKeys = createRouterKeys({ enrollment, folder, log, adopted: routerAuth.adopt })
  const gatewayKeys = createGatewayKeys({
    ask: createAskGateway({ gatewayUrl: enrollment.gateway_url, nodeId, identity: identity.key }),
    onFailure: () => log.warn('gateway_not_asked'),
  })
  const credentials = createLocalCredentials({
    localToken: loadLocalToken(folder),
    keys: localKeys(folder),
    router: () => routerAuth,
    gatewayKeys: () => gatewayKeys,
  })
  const commands = createCommands({
    store: openCommandStore(join(folder.path, 'commands')),
    worker: {
      nodeId,
      nodeClass: () => enrollment.node_class,
      identity: identity.key,
      secretKey: (keyId) => transportKeys.secretKey(keyId),
      run: runByChat((call) => chat.answer(call)),
    },
    failed: (commandId, error) => log.error('command_failed', { command_id: commandId, failure: failureName(error) }),
  })
  const routes = createNodeApp({
    nodeId,
    nodeClass: enrollment.node_class,
    identity: identity.key,
    transportKeys,
    runtimes,
    chat,
    credentials,
    reranker,
    commands,
    log,
    stopping: () => stopping,
  })
  return {
    routes,
    chat,
    reranker,
    commands,
    routerKid: () => routerKeys.current()[0]?.kid ?? '',
    beginStop: () => {
      stopping = true
    },
  }
}
