import { ed25519 } from '@noble/curves/ed25519.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import { canonicalJson } from '../protocol/json/canonical-json.ts'
import { decodeBase64Url } from '../protocol/signing/base64.ts'
import { transportKeyId } from '../protocol/signing/envelope.ts'
import { identityFingerprint } from '../protocol/signing/identity-fingerprint.ts'
import type { NodeKeys } from '../protocol/wire/inference/job.ts'
import type { TransportKey } from '../protocol/wire/nodes/agent.ts'

/** Why the client refused the keys. The gateway could cause any of these, and nothing was sealed. */
export type KeyFault = 'identity_changed' | 'key_not_signed' | 'no_key_in_use'

export class NodeKeyError extends Error {
  override readonly name = 'NodeKeyError'
  constructor(readonly fault: KeyFault) {
    super(
      fault === 'identity_changed'
        ? 'the node’s identity does not match the fingerprint'
        : fault === 'key_not_signed'
          ? 'the node has not signed one of its transport keys'
          : 'the node has no transport key that is valid now',
    )
  }
}

const keyBytes = 32

/**
 * The node's newest key in use, once identity and signatures hold. `fingerprint`: pinned out of band, because the gateway
 * that hands out the keys is what the envelope protects against. Throws `NodeKeyError`.
 */
export function chooseKey(keys: NodeKeys, fingerprint: string, nowMs: number): Uint8Array {
  if (identityFingerprint(keys.identity_public_key_ed25519) !== fingerprint) throw new NodeKeyError('identity_changed')
  const identity = decodeBase64Url(keys.identity_public_key_ed25519) ?? new Uint8Array()
  if (!keys.keys.every((key) => isSigned(key, identity))) throw new NodeKeyError('key_not_signed')
  const [newest] = keys.keys
    .filter(({ state, not_before, not_after }) => {
      return state === 'active' && Date.parse(not_before) <= nowMs && nowMs < Date.parse(not_after)
    })
    .sort((a, b) => Date.parse(b.not_before) - Date.parse(a.not_before))
  const raw = newest === undefined ? null : decodeBase64Url(newest.public_key_x25519)
  if (raw === null) throw new NodeKeyError('no_key_in_use')
  return raw
}

function isSigned(key: TransportKey, identity: Uint8Array): boolean {
  const { signature_ed25519, ...signed } = key
  const publicKey = decodeBase64Url(key.public_key_x25519)
  const signature = decodeBase64Url(signature_ed25519.replace(/=+$/, ''))
  if (publicKey?.length !== keyBytes || signature === null || transportKeyId(publicKey) !== key.key_id) return false
  try {
    // The default also accepts keys of small order, for which one signature fits every message.
    return ed25519.verify(signature, utf8ToBytes(canonicalJson(signed)), identity, { zip215: false })
  } catch {
    return false
  }
}
