import { sha256 } from '@noble/hashes/sha2.js'
import { decodeBase64Url, encodeBase64Url } from './base64.ts'

const keyBytes = 32

/** `SHA256:` and the base64url of the hash of an Ed25519 public key, as the node prints it; null for what is no key. In any browser. */
export function identityFingerprint(publicKey: string): string | null {
  const raw = decodeBase64Url(publicKey)
  return raw?.length === keyBytes ? `SHA256:${encodeBase64Url(sha256(raw))}` : null
}
