import {
  formatRouterSignature,
  newNonce,
  type RouterRequest,
  routerKeysMessage,
  routerMessage,
} from '../../protocol/signing/signatures.ts'
import type { RouterKeys, RouterPublicKey } from '../../protocol/wire/nodes/agent.ts'
import { secondMs } from '../../time.ts'
import { seededKey } from '../accounts/seeded-key.ts'

/** The keys by which node agents recognize the gateways of one pool (§22). */
export interface RouterIdentity {
  /** Newest first. An agent learns them at its enrolment. */
  readonly publicKeys: readonly RouterPublicKey[]
  /** The same keys, signed by each of them. Agents learn of a new key from it. */
  readonly announcement: RouterKeys
  /** The value of `X-SVC-Router-Signature` for one request, signed with the newest key. */
  stamp(request: RouterRequest): string
  /** A signature by the key of this name; null: it is no key of this gateway any more. */
  signAs(kid: string, message: string): string | null
}

/** `seeds`: SVC_ROUTER_KEY, newest first. */
export function createRouterIdentity(seeds: readonly string[], now: () => number = Date.now): RouterIdentity {
  const keys = seeds.map(seededKey)
  const [newest] = keys
  if (newest === undefined) throw new Error('The gateway has no router key, so agents cannot recognize it')
  const publicKeys = keys.map((key) => ({ kid: key.keyId, public_key_ed25519: key.publicKey }))
  const message = routerKeysMessage(publicKeys)
  const signatures = keys.map((key) => ({ kid: key.keyId, signature_ed25519: key.sign(message) }))
  return {
    publicKeys,
    signAs: (kid, message) => keys.find(({ keyId }) => keyId === kid)?.sign(message) ?? null,
    announcement: { router_public_keys: publicKeys, signatures },
    stamp: (request) => {
      const stamp = { kid: newest.keyId, timestamp: Math.floor(now() / secondMs), nonce: newNonce() }
      return formatRouterSignature({ ...stamp, signature: newest.sign(routerMessage(request, stamp)) })
    },
  }
}
