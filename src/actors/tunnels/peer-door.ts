import { Problem } from '../../errors.ts'
import type { NodeId } from '../../ids.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { decodeFrame, headerBytes, type OpenHead, openFrame } from '../../protocol/tunnel/tunnel-frames.ts'
import { sha256Hex } from '../../secrets.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import type { NodeResponse } from '../../transport/transport.ts'
import { PeerProofs, type PeerRequest } from './peer-proof.ts'
import { createTunnelTransport } from './tunnel-transport.ts'
import type { Tunnels } from './tunnels.ts'

/** Passes requests of another gateway on to a node that dialled in here. */
export interface PeerDoor {
  /**
   * Who asks is known before a byte of the body is read; the passage then checks the body. Throws `route_not_found`
   * where there are no other gateways, `invalid_credentials`, and `node_not_found` without a tunnel here.
   */
  admit(
    asked: { readonly proof: string | null; readonly to: string | null; readonly nodeId: string } & PeerQuestion,
  ): Passage
}

type PeerQuestion = Omit<PeerRequest, 'bodyHash' | 'replicaId'>

/** Rejects with `TransportError` and, for another body than was signed, `invalid_credentials`. */
export type Passage = (body: Uint8Array, signal: CancelSignal) => Promise<NodeResponse>

export interface PeerDoorOptions {
  readonly secret: string | null
  readonly replicaId: string
  readonly tunnels: Tunnels
  readonly now?: () => number
}

/** Checks the head exactly as the frame that it becomes. */
function openHeadOf(text: string): OpenHead | null {
  try {
    const frame = openFrame(1, foreignJson(Buffer.from(text, 'base64url').toString('utf8')) as OpenHead)
    const decoded = frame === null || frame.length < headerBytes ? null : decodeFrame(frame)
    return decoded?.kind === 'open' ? decoded.head : null
  } catch {
    return null
  }
}

export function createPeerDoor({ secret, replicaId, tunnels, now }: PeerDoorOptions): PeerDoor {
  const proofs = secret === null ? null : new PeerProofs(secret, now)
  return {
    admit: ({ proof, to, nodeId, method, path, head }) => {
      if (proofs === null) throw new Problem('route_not_found')
      const bodyHash = to === replicaId ? proofs.check(proof, { replicaId, method, path, head }) : null
      // Another gateway may still know the tunnel of a process that ran here before under another id.
      if (to !== replicaId && to !== null) throw new Problem('node_not_found')
      if (bodyHash === null) throw new Problem('invalid_credentials')
      const opened = openHeadOf(head)
      if (opened === null) throw new Problem('invalid_request')
      if (tunnels.session(nodeId as NodeId) === null) throw new Problem('node_not_found')
      const node = createTunnelTransport(() => tunnels.session(nodeId as NodeId))
      return async (body, signal) => {
        if (sha256Hex(body) !== bodyHash) throw new Problem('invalid_credentials')
        // It may have moved while the body came: nothing has gone to it, and the other gateway asks elsewhere.
        if (tunnels.session(nodeId as NodeId) === null) throw new Problem('node_not_found')
        const { method: inner, path: target, headers } = opened
        return node.fetch(target, { method: inner as 'GET', headers, body, signal })
      }
    },
  }
}
