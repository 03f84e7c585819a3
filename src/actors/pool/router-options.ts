import type { InspectionEvent } from 'xstate'
import type { Database } from '../../db/client.ts'
import type { NodeId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import type { NodeThresholds } from '../../machines/charts/node-events.ts'
import type { Prompt } from '../../machines/placement/blocks.ts'
import type { RuntimeModule } from '../../runtimes/runtime.ts'
import type { Config } from '../../settings/config.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { EndpointRules } from '../agents/endpoint-address.ts'
import type { RouterIdentity } from '../agents/router-identity.ts'
import type { ServerStates } from '../agents/server-states.ts'
import type { SharedPolls } from '../polls/shared-polls.ts'
import type { SleepBook } from '../sleep/sleep-changes.ts'

/** How the gateway reaches agents and proves to them who it is. */
export interface AgentAccess {
  readonly identity: RouterIdentity
  readonly endpoints: EndpointRules
  /** The way to a node that dials in, wherever its tunnel ends. It fails as `closed` while there is no tunnel. */
  dialled(nodeId: NodeId): NodeTransport
  /** The way that a request to the node would take now, or null if there is none. */
  way(nodeId: NodeId): 'tunnel' | 'peer' | null
  /** Ends the tunnels of a revoked or deleted node at once. */
  cut(nodeId: NodeId): void
}

export interface RouterOptions {
  readonly config: Config
  readonly db: Database
  readonly log: Log
  /** The default is the whole registry. */
  readonly modules?: readonly RuntimeModule[]
  /** Decrypts `nodes.api_key_sealed`. null if no key fits; then the gateway does not call the node. */
  readonly openSecret: (sealed: Uint8Array) => string | null
  /** Without it the gateway does not call nodes of the kind `agent`. */
  readonly agents?: AgentAccess
  /** Hears where each prompt was sent. Absent: there is no other gateway to tell. */
  readonly placed?: (profileId: string, prompt: Prompt) => void
  /** Hears what agents say of their model servers. */
  readonly serverStates?: ServerStates
  /** Absent: what is learnt of sleep is this gateway's alone. */
  readonly sleepBook?: SleepBook
  /** Absent: no other process of this computer polls. */
  readonly polls?: SharedPolls
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

/** How many times the bound of one poll the first polls may take, with detection. */
const probingPollsMax = 3
export const probingMaxMs = ({ SVC_PROBE_TIMEOUT_MS }: Config) => probingPollsMax * SVC_PROBE_TIMEOUT_MS
