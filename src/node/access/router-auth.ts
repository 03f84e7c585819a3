import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { isFresh, parseRouterSignature, type RouterRequest, routerMessage } from '../../protocol/signing/signatures.ts'
import type { RouterPublicKey } from '../../protocol/wire/nodes/agent.ts'
import { NonceMemory } from './nonces.ts'

export type RouterVerdict = 'valid' | 'signature_invalid' | 'signature_expired' | 'nonce_reused'

export interface RouterAuth {
  /** From now on exactly these keys are accepted. */
  adopt(keys: readonly RouterPublicKey[]): void
  /** `header` is the value of `X-SVC-Router-Signature`. A valid one works once; a repeated one is `nonce_reused`. */
  verify(header: string, request: Omit<RouterRequest, 'nodeId'>): RouterVerdict
}

export interface RouterAuthOptions {
  readonly nodeId: string
  readonly keys: readonly RouterPublicKey[]
  /** Called if a request names an unknown key, because the gateway may have a new one. */
  readonly unknownKey?: () => void
  /** Unix ms. The default is the computer's clock. */
  readonly now?: () => number
}

const verifyKeys = (keys: readonly RouterPublicKey[]) =>
  new Map(keys.map(({ kid, public_key_ed25519 }) => [kid, verifyKey(public_key_ed25519)]))

/** Checks that a request was just signed by the gateway for this node and comes for the first time (§22). */
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
      // The time is checked before the signature, so that the refusal can show a gateway with a wrong clock the node's
      // time.
      if (!isFresh(stamp.timestamp, now())) return 'signature_expired'
      if (!key.verify(routerMessage({ ...request, nodeId }, stamp), stamp.signature)) return 'signature_invalid'
      // The nonce is stored after the signature was checked, so that strangers cannot fill the memory.
      return nonces.use(stamp.nonce, stamp.timestamp, now()) ? 'valid' : 'nonce_reused'
    },
  }
}
