import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { isFresh, parseRouterSignature, type RouterRequest, routerMessage } from '../../protocol/signing/signatures.ts'
import type { RouterPublicKey } from '../../protocol/wire/nodes/agent.ts'
import { NonceMemory } from './nonces.ts'

export type RouterVerdict = 'valid' | 'signature_invalid' | 'signature_expired' | 'nonce_reused'

export interface RouterAuth {
  /** These keys and no others from now on. */
  adopt(keys: readonly RouterPublicKey[]): void
  /** `header`: the value of `X-SVC-Router-Signature`. A valid one is used up: the same again is `nonce_reused`. */
  verify(header: string, request: Omit<RouterRequest, 'nodeId'>): RouterVerdict
}

export interface RouterAuthOptions {
  readonly nodeId: string
  readonly keys: readonly RouterPublicKey[]
  /** Told when a request names a key that is not known: the gateway may have a new one. */
  readonly unknownKey?: () => void
  /** ms; default the machine's clock. */
  readonly now?: () => number
}

const verifyKeys = (keys: readonly RouterPublicKey[]) =>
  new Map(keys.map(({ kid, public_key_ed25519 }) => [kid, verifyKey(public_key_ed25519)]))

/** Is this the gateway's own request, of this moment, for this node, and the first of its kind (§22)? */
export function createRouterAuth({ nodeId, keys, unknownKey, now = Date.now }: RouterAuthOptions): RouterAuth {
  let byKid = verifyKeys(keys)
  const nonces = new NonceMemory()
  return {
    adopt: (next) => {
      byKid = verifyKeys(next)
    },
    verify(header, request) {
      const stamp = parseRouterSignature(header)
      if (stamp === null) return 'signature_invalid'
      const key = byKid.get(stamp.kid)
      if (key === undefined) unknownKey?.()
      if (key === null || key === undefined) return 'signature_invalid'
      // Before the signature: a clock that is wrong is worth knowing, and the refusal names ours.
      if (!isFresh(stamp.timestamp, now())) return 'signature_expired'
      if (!key.verify(routerMessage({ ...request, nodeId }, stamp), stamp.signature)) return 'signature_invalid'
      // After it: strangers cannot fill the memory.
      return nonces.use(stamp.nonce, stamp.timestamp, now()) ? 'valid' : 'nonce_reused'
    },
  }
}
