import { join } from 'node:path'
import { failureName, type Log } from '../log.ts'
import type { PrivateFolder } from '../private-files.ts'
import { createNodeApp, type NodeApp } from './app.ts'
import { openCommandStore } from './command-store.ts'
import { runByChat } from './command-work.ts'
import { type Commands, createCommands } from './commands.ts'
import type { Identity } from './identity.ts'
import { createLocalCredentials } from './local-credentials.ts'
import { loadLocalToken, localKeys } from './local-keys.ts'
import type { Membership, Place } from './membership.ts'
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
  readonly commands: Commands
  /** From then on the status says that nothing is ready. */
  beginStop(): void
}

/** Commands come with a router's signature, which only an enrolled agent can check. */
function membershipOf({ membership }: Place): Membership {
  if (membership === null) throw new Error('a command without an enrolment')
  return membership
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
  const commands = createCommands({
    store: openCommandStore(join(folder.path, 'commands')),
    worker: {
      get nodeId() {
        return membershipOf(place).nodeId
      },
      nodeClass: () => membershipOf(place).enrollment.node_class,
      identity: identity.key,
      secretKey: (keyId) => transportKeys.secretKey(keyId),
      run: runByChat((call) => chat.answer(call)),
    },
    failed: (commandId, error) => log.error('command_failed', { command_id: commandId, failure: failureName(error) }),
  })
  const routes = createNodeApp({
    place,
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
    beginStop: () => {
      stopping = true
    },
  }
}
