import { Problem } from '../../errors.ts'
import type { NodeId } from '../../ids.ts'
import { isNonce, tunnelMessage } from '../../protocol/signing/signatures.ts'
import type { NodeProof, NodeProofFault } from '../agents/node-proofs.ts'
import type { SocketHandler } from './tunnel-socket.ts'
import type { Tunnels } from './tunnels.ts'

/** The signed headers of a hello as they arrived (§22). null for a missing one. */
export interface TunnelHello {
  readonly nodeId: string | null
  readonly timestamp: string | null
  readonly nonce: string | null
  readonly signature: string | null
}

export interface TunnelDoorOptions {
  readonly tunnels: Tunnels
  /** See `NodeProofs`: returns null if the node has just signed the message and uses the nonce for the first time. */
  readonly check: (proof: NodeProof) => Promise<NodeProofFault | null>
  /** The ids of the router's keys, newest first. A node signs for the newest key that it knows. */
  readonly routerKids: readonly string[]
  /** Unix ms. */
  readonly now?: () => number
}

/**
 * `malformed` means that a header is missing or has another form, and `stopping` that only the gateway's stop refused
 * it.
 */
export type HelloRefusal = NodeProofFault | 'malformed' | 'stopping'
/** Each count starts at 0, so that the first refusal is visible as an increase. */
const noRefusals: Readonly<Record<HelloRefusal, number>> = {
  signature_invalid: 0,
  signature_expired: 0,
  nonce_reused: 0,
  malformed: 0,
  stopping: 0,
}

/** Admits enrolled nodes that prove their identity. */
export interface TunnelDoor {
  /**
   * Returns the handler of the node's socket. Throws `tunnel_auth_failed`, and `service_unavailable` while the gateway
   * stops.
   */
  admit(hello: TunnelHello): Promise<SocketHandler>
  /** The number of refused hellos, for the metrics alone. Strangers do not learn which check failed. */
  refused(): ReadonlyMap<HelloRefusal, number>
}

const idPattern = /^[A-Za-z0-9_-]{1,64}$/
const secondsPattern = /^[0-9]{1,12}$/
const retryAfterSeconds = 1

/** The answer does not say which check failed, except for the clock, which a node can correct. */
function refused(now: number): Problem {
  const detail = `The gateway does not accept the node's signature. The gateway's time is ${Math.floor(now / 1_000)}.`
  return new Problem('tunnel_auth_failed', { detail })
}

interface WholeHello {
  readonly nodeId: NodeId
  /** Unix seconds. */
  readonly timestamp: number
  readonly nonce: string
  readonly signature: string
}

function wholeHello({ nodeId, timestamp, nonce, signature }: TunnelHello): WholeHello | null {
  if (nodeId === null || nonce === null || signature === null || timestamp === null) return null
  if (!idPattern.test(nodeId) || !isNonce(nonce) || !secondsPattern.test(timestamp)) return null
  return { nodeId: nodeId as NodeId, timestamp: Number(timestamp), nonce, signature }
}

export function createTunnelDoor({ tunnels, check, routerKids, now = Date.now }: TunnelDoorOptions): TunnelDoor {
  const counts = new Map(Object.entries(noRefusals) as [HelloRefusal, number][])
  const count = (refusal: HelloRefusal) => counts.set(refusal, (counts.get(refusal) ?? 0) + 1)
  const faultOf = async ({ nodeId, timestamp, nonce, signature }: WholeHello): Promise<NodeProofFault | null> => {
    for (const kid of routerKids) {
      const message = tunnelMessage(nodeId, timestamp, nonce, kid)
      const fault = await check({ nodeId, timestamp, nonce, signature, message })
      if (fault !== 'signature_invalid') return fault
    }
    return 'signature_invalid'
  }
  return {
    admit: async (given) => {
      const hello = wholeHello(given)
      const fault = hello === null ? 'malformed' : await faultOf(hello)
      if (hello === null || fault !== null) {
        count(fault ?? 'malformed')
        throw refused(now())
      }
      const handler = tunnels.accept(hello.nodeId)
      if (handler !== null) return handler
      count('stopping')
      throw new Problem('service_unavailable', { retryAfterSeconds })
    },
    refused: () => counts,
  }
}
