import type { OpenDatabase } from '../db/client.ts'
import type { NodeId } from '../ids.ts'
import type { Log } from '../log.ts'
import type { RouterKeys } from '../protocol/wire/nodes/agent.ts'
import type { Config } from '../settings/config.ts'
import type { AccessDirectory } from './accounts/access-directory.ts'
import { type AgentBundle, createAgentBundle } from './agents/agent-bundle.ts'
import { createEndpointRules } from './agents/endpoint-address.ts'
import { createEnrollment, type Enrollment } from './agents/enrollment.ts'
import { createJoining, type Joining } from './agents/joining.ts'
import { createNodeAlarms, type NodeAlarmBook } from './agents/node-alarms.ts'
import { createNodeKeys, type VerifyNodeKey } from './agents/node-keys.ts'
import { createNodeProofs, type NodeProofs } from './agents/node-proofs.ts'
import { createPayees, type Payees } from './agents/payees.ts'
import { createRouterIdentity, type RouterIdentity } from './agents/router-identity.ts'
import type { AuditTrail } from './audit/audit-context.ts'
import type { ChangeFeed } from './durable/change-feed.ts'
import type { PoolFeed } from './pool/pool-feed.ts'
import type { PoolRouter } from './pool/pool-router.ts'
import type { AgentAccess } from './pool/router-options.ts'
import { createDialIn, type DialIn } from './tunnels/dial-in.ts'

/** What the gateway does with node agents beyond calling them (§22). */
export interface Agents {
  readonly access: AgentAccess
  readonly dialIn: DialIn
  readonly enrollment: Enrollment
  /** Without a token, by words that people compare (§39). */
  readonly joining: Joining
  readonly payees: Payees
  readonly nodeAlarms: NodeAlarmBook
  readonly bundle: AgentBundle
  /** The keys by which agents recognize the gateways of this pool. */
  readonly routerKeys: RouterKeys
  readonly router: Pick<RouterIdentity, 'publicKeys' | 'signAs'>
  readonly proofs: Pick<NodeProofs, 'check'>
  /** Call it only after the router exists. */
  keyVerifier(router: PoolRouter): VerifyNodeKey
  /** From now on the pool follows the tunnels. */
  start(router: PoolRouter, poolFeed: PoolFeed): Promise<void>
  stop(): Promise<void>
}

export interface AgentsOptions {
  readonly config: Config
  readonly database: OpenDatabase
  readonly feed: ChangeFeed
  readonly log: Log
  readonly access: AccessDirectory
  readonly trail: AuditTrail
  readonly peppers: readonly string[]
  /** SVC_ROUTER_KEY, newest first. */
  readonly routerKeys: readonly string[]
}

export function createAgents(options: AgentsOptions): Agents {
  const { config, database, feed, log, access, trail, peppers } = options
  const { db } = database
  const identity = createRouterIdentity(options.routerKeys)
  const endpoints = createEndpointRules(config.SVC_ENDPOINT_NETWORKS)
  const proofs = createNodeProofs({ db, log })
  const routerKids = identity.publicKeys.map(({ kid }) => kid)
  const dialIn = createDialIn({ config, database, feed, log, proofs, routerKids })
  const payees = createPayees({ db, changedHere: feed.changedHere.bind(feed) })
  const nodeAlarms = createNodeAlarms({ db, log, changedHere: feed.changedHere.bind(feed) })
  const enrollment = createEnrollment({
    db,
    trail,
    peppers,
    lifeMs: config.SVC_ENROLLMENT_TTL_MS,
    endpoints,
    routerPublicKeys: identity.publicKeys,
    changedHere: feed.changedHere.bind(feed),
  })
  const joining = createJoining({ db, log, trail, identity, changedHere: feed.changedHere.bind(feed) })
  let unsubscribe = () => {}
  return {
    access: {
      identity,
      endpoints,
      dialled: (nodeId) => dialIn.transport(nodeId),
      way: (nodeId) => dialIn.way(nodeId),
      cut: (nodeId) => dialIn.cut(nodeId),
    },
    dialIn,
    enrollment,
    joining,
    payees,
    nodeAlarms,
    bundle: createAgentBundle(),
    routerKeys: identity.announcement,
    router: identity,
    proofs,
    keyVerifier: (router) => createNodeKeys({ db, access, proofs, router }),
    start: async (router, poolFeed) => {
      unsubscribe = followTunnels(dialIn, router, poolFeed)
      proofs.start()
      joining.start()
      await dialIn.start()
    },
    stop: async () => {
      unsubscribe()
      joining.stop()
      proofs.stop()
      await dialIn.stop()
    },
  }
}

function followTunnels(dialIn: DialIn, router: PoolRouter, poolFeed: PoolFeed): () => void {
  return dialIn.subscribe({
    onOpen: (nodeId) => void welcome(nodeId, dialIn, router, poolFeed),
    onClose: (nodeId) => router.hungUp(nodeId),
    onStatus: (nodeId) => router.hinted(nodeId),
  })
}

/**
 * A node that has just enrolled at another gateway is not known here yet, and a node that was just revoked may still
 * be known.
 */
async function welcome(nodeId: NodeId, dialIn: DialIn, router: PoolRouter, poolFeed: PoolFeed): Promise<void> {
  if (!router.knows(nodeId)) await poolFeed.refresh()
  if (router.knows(nodeId)) router.dialled(nodeId)
  else dialIn.cut(nodeId)
}
