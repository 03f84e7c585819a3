import type { PrivateFolder } from '../../host/private-files.ts'
import type { Log } from '../../log.ts'
import { createGatewayKeys, type GatewayKeys } from '../access/gateway-keys.ts'
import { createRouterAuth, type RouterAuth } from '../access/router-auth.ts'
import { createAlarms } from './alarms.ts'
import { createAskGateway } from './ask-gateway.ts'
import type { Enrollment } from './enrollment.ts'
import type { Identity } from './identity.ts'
import { createPayeeWatch, type PayeeWatch } from './payee-watch.ts'
import { createRouterKeys } from './router-keys.ts'

/**
 * An enrolled agent's knowledge of its gateway: the agent's id there, the keys of the requests that it accepts, and the
 * way to check gateway keys.
 */
export interface Membership {
  readonly enrollment: Enrollment
  readonly nodeId: string
  readonly routerAuth: RouterAuth
  readonly gatewayKeys: GatewayKeys
  /** Looks whether what this node earns goes where it said. */
  readonly payeeWatch: PayeeWatch
  /** The newest router key that this node knows. */
  routerKid(): string
}

/** The agent's place in a pool. The agent may get it while it already serves its own computer. */
export interface Place {
  /** null if no gateway knows this node. */
  readonly membership: Membership | null
  /**
   * Resolves when it is decided whether there is one. A gateway may call at the `endpoint_url` before its answer to the
   * enrolment has arrived here.
   */
  readonly decided: Promise<unknown>
}

export interface MembershipOptions {
  readonly enrollment: Enrollment
  readonly identity: Identity
  readonly folder: PrivateFolder
  readonly log: Log
}

export function createMembership({ enrollment, identity, folder, log }: MembershipOptions): Membership {
  const nodeId = enrollment.node_id
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
  const payeeWatch = createPayeeWatch({
    folder,
    identity: identity.key,
    gatewayUrl: enrollment.gateway_url,
    nodeId,
    alarms: createAlarms(folder, log),
    log,
  })
  return {
    enrollment,
    nodeId,
    routerAuth,
    gatewayKeys,
    payeeWatch,
    routerKid: () => routerKeys.current()[0]?.kid ?? '',
  }
}
