import type { Log } from '../log.ts'
import type { PrivateFolder } from '../private-files.ts'
import { createNodeApp, type NodeApp } from './app.ts'
import type { Identity } from './identity.ts'
import { createLocalCredentials } from './local-credentials.ts'
import { loadLocalToken, localKeys } from './local-keys.ts'
import type { Place } from './membership.ts'
import { createNodeChat, type NodeChat } from './node-chat.ts'
import { createReranker, type Reranker } from './rerank.ts'
import type { RuntimeSet } from './runtime-set.ts'
import type { TransportKeys } from './transport-keys.ts'

export interface RoutesOptions {
  readonly folder: PrivateFolder
  readonly identity: Identity
  readonly transportKeys: TransportKeys
  readonly runtimes: RuntimeSet
  readonly place: Place
  readonly log: Log
}

export interface Served {
  readonly routes: NodeApp
  readonly chat: NodeChat
  readonly reranker: Reranker
  /** From then on the status says that nothing is ready. */
  beginStop(): void
}

/** The agent's routes over all that they need. */
export function createRoutes({ folder, identity, transportKeys, runtimes, place, log }: RoutesOptions): Served {
  let stopping = false
  const chat = createNodeChat(runtimes)
  const reranker = createReranker({ runtimes: () => runtimes.list() })
  const credentials = createLocalCredentials({
    localToken: loadLocalToken(folder),
    keys: localKeys(folder),
    router: () => place.membership?.routerAuth ?? null,
    gatewayKeys: () => place.membership?.gatewayKeys ?? null,
  })
  const routes = createNodeApp({
    place,
    identity: identity.key,
    transportKeys,
    runtimes,
    chat,
    credentials,
    reranker,
    log,
    stopping: () => stopping,
  })
  return {
    routes,
    chat,
    reranker,
    beginStop: () => {
      stopping = true
    },
  }
}
