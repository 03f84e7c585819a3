import { type SigningKey, signingKey } from '../protocol/ed25519.ts'
import { formatRouterSignature, newNonce, type RouterRequest, routerMessage } from '../protocol/signatures.ts'
import type { RouterPublicKey } from '../protocol/wire/agent.ts'
import { readSeed } from '../secrets.ts'
import { secondMs } from '../time.ts'

/** By which node agents know the gateways of one pool (decisions §22). */
export interface RouterIdentity {
  /** Newest first; an agent learns them when it enrols. */
  readonly publicKeys: readonly RouterPublicKey[]
  /** The value of `X-SVC-Router-Signature` for one request, by the newest key. */
  stamp(request: RouterRequest): string
}

/** `seeds`: SVC_ROUTER_KEY, newest first. */
export function createRouterIdentity(seeds: readonly string[], now: () => number = Date.now): RouterIdentity {
  const keys = seeds.map(keyOf)
  const [newest] = keys
  if (newest === undefined) throw new Error('no key for agents to know the gateway by')
  return {
    publicKeys: keys.map((key) => ({ kid: key.keyId, public_key_ed25519: key.publicKey })),
    stamp: (request) => {
      const stamp = { kid: newest.keyId, timestamp: Math.floor(now() / secondMs), nonce: newNonce() }
      return formatRouterSignature({ ...stamp, signature: newest.sign(routerMessage(request, stamp)) })
    },
  }
}

function keyOf(text: string): SigningKey {
  const seed = readSeed(text)
  if (seed === null) throw new Error('a router key is no seed of 32 bytes')
  return signingKey(seed)
}
