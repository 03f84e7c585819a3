import type { Loop } from '../../host/loop.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import type { Log } from '../../log.ts'
import { createGatewayKeys, type GatewayKeys } from '../access/gateway-keys.ts'
import { createRouterAuth, type RouterAuth } from '../access/router-auth.ts'
import type { KeptReceipts } from '../receipts/kept-receipts.ts'
import { lookUpAt } from '../receipts/log-place.ts'
import { createReceiptWatch } from '../receipts/receipt-watch.ts'
import type { WitnessMemory } from '../witness/witness-memory.ts'
import { createAlarmWatch } from './alarm-watch.ts'
import { createAlarms } from './alarms.ts'
import { createAskGateway } from './ask-gateway.ts'
import type { Enrollment } from './enrollment.ts'
import type { Identity } from './identity.ts'
import { createPayeeStating } from './payee-stating.ts'
import { createPayeeWatch, type PayeeWatch } from './payee-watch.ts'
import { readPayouts } from './payout-report.ts'
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
  /** It, what looks whether the log holds what this node has signed, what tells the gateway what these find, and what states the payee. */
  readonly watches: readonly Pick<Loop, 'start' | 'stop'>[]
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
  readonly kept: KeptReceipts
  /** The logs that this node witnesses. */
  readonly witnessed: Pick<WitnessMemory, 'logs'>
}

export function createMembership(options: MembershipOptions): Membership {
  const { enrollment, identity, folder, log, kept, witnessed } = options
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
  const alarms = createAlarms(folder, log)
  const asking = { identity: identity.key, gatewayUrl: enrollment.gateway_url, nodeId }
  const payeeWatch = createPayeeWatch({ ...asking, folder, alarms, log })
  const receiptWatch = createReceiptWatch({
    kept,
    lookUp: lookUpAt(enrollment.gateway_url, witnessed.logs),
    payouts: () => readPayouts(asking),
    alarms,
    log,
  })
  return {
    enrollment,
    nodeId,
    routerAuth,
    gatewayKeys,
    payeeWatch,
    watches: [
      payeeWatch,
      receiptWatch,
      createAlarmWatch({ ...asking, folder, log }),
      createPayeeStating({ ...asking, folder, log }),
    ],
    routerKid: () => routerKeys.current()[0]?.kid ?? '',
  }
}
