import type { TransportFailure } from '../../../transport/transport.ts'
import type { GoodAnswer, PlacedCall } from '../../placement/placed-calls.ts'

/** A call that occupies a slot. The router tells it when its node went offline or was revoked. */
export interface InFlightCall extends PlacedCall {
  /** Among the calls of its node; -1: it holds no slot. */
  callPlace: number
  nodeLost(): void
}

export interface FailedCall {
  readonly cause: 'connect' | 'server_error' | 'timeout' | 'load'
  readonly transport?: TransportFailure
  readonly keyId: string
}

/** How a call ended, as far as the route's health and speed are concerned. */
export type CallOutcome =
  | ({ readonly kind: 'ok' } & GoodAnswer)
  /**
   * Counts toward passive ejection (§8). `keyId` is there because the requests of one bad key must not eject a route.
   */
  | ({
      readonly kind: 'failed' /** Whether the failure counts is decided later, by `strike`. */
      readonly doubtful?: boolean
    } & FailedCall)
  /** The client left, the answer was a 4xx, or the gateway stops. This says nothing about the route. */
  | { readonly kind: 'neutral' }
