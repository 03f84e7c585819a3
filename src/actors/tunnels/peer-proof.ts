import { brand } from '../../brand.ts'
import { newNonce } from '../../protocol/signing/signatures.ts'
import { equalBytes, hmacSha256, sha256Hex } from '../../secrets.ts'
import { secondMs } from '../../time.ts'

/** A request that one gateway asks another to pass on (§26). */
export interface PeerRequest {
  /** The gateway that is asked, so that a proof for one gateway is worth nothing at another. */
  readonly replicaId: string
  readonly method: string
  readonly path: string
  /** The head of the request for the node, as base64url of JSON. */
  readonly head: string
  readonly bodyHash: string
}

/** How far the clocks of the gateways of one pool may differ. */
const freshMs = 30 * secondMs
/** How many nonces one window has. Beyond it requests are refused, so that none is accepted twice. */
const noncesMax = 200_000

const formPattern = /^ts=([0-9]{1,12}),nonce=([A-Za-z0-9_-]{22}),body=([0-9a-f]{64}),sig=([0-9a-f]{64})$/

function mac(secret: string, request: PeerRequest, timestamp: string, nonce: string): Buffer {
  const { replicaId, method, path, head, bodyHash } = request
  const text = `${brand}-peer-v1:${replicaId}:${method}:${path}:${sha256Hex(head)}:${bodyHash}:${timestamp}:${nonce}`
  return hmacSha256(secret, text)
}

/** The value of the proof header. */
export function peerProof(secret: string, request: PeerRequest, nowMs: number): string {
  const timestamp = String(Math.floor(nowMs / secondMs))
  const nonce = newNonce()
  const sig = mac(secret, request, timestamp, nonce).toString('hex')
  return `ts=${timestamp},nonce=${nonce},body=${request.bodyHash},sig=${sig}`
}

/**
 * Checks proofs that are addressed to this gateway. Nonces live in memory, because a restarted process has another
 * replica id.
 */
export class PeerProofs {
  private current = new Set<string>()
  private previous = new Set<string>()
  private windowFromMs = 0

  constructor(
    private readonly secret: string,
    private readonly now: () => number = Date.now,
  ) {}

  /**
   * Returns the hash that the body must have. null if the proof is not from a gateway of this pool, too old or already
   * seen.
   */
  check(header: string | null, request: Omit<PeerRequest, 'bodyHash'>): string | null {
    const [, timestamp = '', nonce = '', bodyHash = '', sig = ''] = formPattern.exec(header ?? '') ?? []
    if (nonce === '' || Math.abs(this.now() - Number(timestamp) * secondMs) > freshMs) return null
    if (!equalBytes(mac(this.secret, { ...request, bodyHash }, timestamp, nonce), Buffer.from(sig, 'hex'))) return null
    return this.firstTime(nonce) ? bodyHash : null
  }

  /** Keeps two windows, each as long as a proof is valid, so that it needs no timer and no search. */
  private firstTime(nonce: string): boolean {
    const now = this.now()
    if (Math.abs(now - this.windowFromMs) > 2 * freshMs) {
      this.previous = Math.abs(now - this.windowFromMs) > 4 * freshMs ? new Set() : this.current
      this.current = new Set()
      this.windowFromMs = now
    }
    if (this.current.has(nonce) || this.previous.has(nonce) || this.current.size >= noncesMax) return false
    this.current.add(nonce)
    return true
  }
}
