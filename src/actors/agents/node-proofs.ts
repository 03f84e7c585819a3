import type { Database } from '../../db/client.ts'
import { dropOldNonces, nodeIdentityKey, takeNonce } from '../../db/queries/pool/node-identities.ts'
import { loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { isFresh, nonceKeptSeconds } from '../../protocol/signing/signatures.ts'
import { minuteMs, secondMs } from '../../time.ts'

/** What a node sends to prove its identity: its signature over `message`, made at `timestamp` (Unix seconds). */
export interface NodeProof {
  readonly nodeId: string
  readonly timestamp: number
  readonly nonce: string
  readonly signature: string
  readonly message: string
}

export type NodeProofFault = 'signature_expired' | 'signature_invalid' | 'nonce_reused'

/**
 * Verifies the signatures of enrolled nodes (§15). It reads the row each time, so a revoked key stops working at once.
 */
export interface NodeProofs {
  /**
   * Returns null if the node has signed the message just now and uses this nonce for the first time. An unknown node
   * gets `signature_invalid`.
   */
  check(proof: NodeProof): Promise<NodeProofFault | null>
  /** Removes old nonces regularly. */
  start(): void
  stop(): void
}

export interface NodeProofsOptions {
  readonly db: Database
  readonly log: Log
  /** Unix ms. */
  readonly now?: () => number
}

export function createNodeProofs({ db, log, now = Date.now }: NodeProofsOptions): NodeProofs {
  const sweeping = loop({
    everyMs: minuteMs,
    boundMs: minuteMs,
    run: () => dropOldNonces(db),
    onFailure: (error) => log.warn('nonces_not_swept', { failure: failureName(error) }),
  })
  return {
    check: async ({ nodeId, timestamp, nonce, signature, message }) => {
      if (!isFresh(timestamp, now())) return 'signature_expired'
      const raw = await nodeIdentityKey(db, nodeId)
      const key = raw === null ? null : verifyKey(toBase64url(raw))
      if (key === null || !key.verify(message, signature)) return 'signature_invalid'
      // The nonce is stored only after the signature was verified, so strangers cannot fill the table.
      const hash = new Bun.CryptoHasher('sha256').update(nonce).digest()
      const expiresAt = new Date((timestamp + nonceKeptSeconds) * secondMs)
      return (await takeNonce(db, nodeId, Buffer.from(hash), expiresAt)) ? null : 'nonce_reused'
    },
    start: () => sweeping.start(),
    stop: () => void sweeping.stop(),
  }
}
