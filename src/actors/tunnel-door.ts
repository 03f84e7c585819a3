import { Problem } from '../errors.ts'
import type { NodeId } from '../ids.ts'
import { isNonce, tunnelMessage } from '../protocol/signatures.ts'
import type { NodeProof, NodeProofFault } from './node-proofs.ts'
import type { SocketHandler } from './tunnel-socket.ts'
import type { Tunnels } from './tunnels.ts'

/** The signed headers of a hello as they came (decisions §22); null where one is missing. */
export interface TunnelHello {
  readonly nodeId: string | null
  readonly timestamp: string | null
  readonly nonce: string | null
  readonly signature: string | null
}

export interface TunnelDoorOptions {
  readonly tunnels: Tunnels
  /** Of `NodeProofs`: null for a node that signed the message, just now and for the first time. */
  readonly check: (proof: NodeProof) => Promise<NodeProofFault | null>
  /** Ids of the router's keys, newest first: a node signs for the newest that it knows. */
  readonly routerKids: readonly string[]
  /** Unix ms. */
  readonly now?: () => number
}

/** Lets in who proves to be an enrolled node. */
export interface TunnelDoor {
  /** The handler of the node's socket. Throws `tunnel_auth_failed`, and `service_unavailable` while the gateway stops. */
  admit(hello: TunnelHello): Promise<SocketHandler>
}

const idPattern = /^[A-Za-z0-9_-]{1,64}$/
const secondsPattern = /^[0-9]{1,12}$/
const retryAfterSeconds = 1

/** Which check failed is told to nobody, but for the clock: a node can set its own right. */
function refused(now: number): Problem {
  const detail = `The node's signature was not accepted; the server's time is ${Math.floor(now / 1_000)}`
  return new Problem('tunnel_auth_failed', { detail })
}

export function createTunnelDoor({ tunnels, check, routerKids, now = Date.now }: TunnelDoorOptions): TunnelDoor {
  const proves = async (hello: TunnelHello): Promise<NodeId | null> => {
    const { nodeId, nonce, signature } = hello
    if (nodeId === null || nonce === null || signature === null || hello.timestamp === null) return null
    if (!idPattern.test(nodeId) || !isNonce(nonce) || !secondsPattern.test(hello.timestamp)) return null
    const timestamp = Number(hello.timestamp)
    for (const kid of routerKids) {
      const message = tunnelMessage(nodeId, timestamp, nonce, kid)
      const fault = await check({ nodeId, timestamp, nonce, signature, message })
      if (fault === null) return nodeId as NodeId
      if (fault !== 'signature_invalid') return null
    }
    return null
  }
  return {
    admit: async (hello) => {
      const nodeId = await proves(hello)
      if (nodeId === null) throw refused(now())
      const handler = tunnels.accept(nodeId)
      if (handler === null) throw new Problem('service_unavailable', { retryAfterSeconds })
      return handler
    },
  }
}
