import type { InspectionEvent } from 'xstate'
import type { Database } from '../../db/client.ts'
import type { NodeId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import type { NodeThresholds } from '../../machines/charts/node.ts'
import type { RuntimeModule } from '../../runtimes/runtime.ts'
import type { Config } from '../../settings/config.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { EndpointRules } from '../agents/endpoint-address.ts'
import type { RouterIdentity } from '../agents/router-identity.ts'

/** How agents are reached and what makes them believe that it is this gateway. */
export interface AgentAccess {
  readonly identity: RouterIdentity
  readonly endpoints: EndpointRules
  /** To a node that dials in, wherever its tunnel ends; fails as `closed` while there is none. */
  dialled(nodeId: NodeId): NodeTransport
  /** By which way a request to it would go now; null: by none. */
  way(nodeId: NodeId): 'tunnel' | 'peer' | null
  /** Revoked or deleted: its tunnels end at once. */
  cut(nodeId: NodeId): void
}

export interface RouterOptions {
  readonly config: Config
  readonly db: Database
  readonly log: Log
  /** Default: all of the registry. */
  readonly modules?: readonly RuntimeModule[]
  /** Opens what `nodes.api_key_sealed` holds; null when no key does: the node is then not reached. */
  readonly openSecret: (sealed: Uint8Array) => string | null
  /** Without it nodes of the kind `agent` are not reached. */
  readonly agents?: AgentAccess
  readonly inspect: (event: InspectionEvent) => void
  /** Uniform in [0, 1). */
  readonly random?: () => number
}

export const thresholdsOf = (config: Config): NodeThresholds => ({
  staleAfterMs: config.SVC_STALE_AFTER_MS,
  offlineAfterMs: config.SVC_OFFLINE_AFTER_MS,
  holdDownMs: config.SVC_HOLD_DOWN_MS,
  drainTimeoutMs: config.SVC_DRAIN_TIMEOUT_MS,
})
