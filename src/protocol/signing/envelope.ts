import { x25519 } from '@noble/curves/ed25519.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { envelopeVersion } from '../../brand.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import { base64UrlLength, decodeBase64Url, encodeBase64Url } from './base64.ts'

/** X25519, HKDF-SHA-256, ChaCha20-Poly1305. Not HPKE: the nonce stands on the wire (§10). */
export const envelopeAlgorithm = 'x25519-hkdf-sha256-chacha20poly1305'

/** As it travels (specification, "Encrypted envelope"). */
export interface Envelope {
  readonly version: string
  readonly key_id: string
  readonly algorithm: string
  readonly client_public_key_x25519: string
  readonly nonce: string
  readonly ciphertext: string
  readonly aad_hash?: string
}

/**
 * The context to which both directions are bound, beside the keys. `jobId` is the client's own, or `''` without one.
 */
export interface EnvelopeContext {
  readonly jobId: string
  readonly modelId: string
  readonly nodeId: string
}

export const envelopeKeyBytes = 32
export const envelopeNonceBytes = 12
const tagBytes = 16
export const ciphertextBytesMax = 6 * 1024 * 1024
const keyIdBytes = 16
const hashPattern = /^[0-9a-f]{64}$/
/** Any scalar detects a point of low order, because the shared secret becomes zero. */
const probeScalar = new Uint8Array(envelopeKeyBytes).fill(1)

/** base64url of the first 16 bytes of SHA-256 of the node's public key. */
export function transportKeyId(nodePublicKey: Uint8Array): string {
  return encodeBase64Url(sha256(nodePublicKey).subarray(0, keyIdBytes))
}

/** False for the points whose shared secret is zero with every key. */
export function isUsablePublicKey(publicKey: Uint8Array): boolean {
  return sharedSecret(probeScalar, publicKey) !== null
}

/** null: the point is of low order, or no key at all. */
export function sharedSecret(secretKey: Uint8Array, publicKey: Uint8Array): Uint8Array | null {
  try {
    return x25519.getSharedSecret(secretKey, publicKey)
  } catch {
    // noble refuses low order and wrong lengths.
    return null
  }
}

type Direction = { readonly direction: 'request' } | { readonly direction: 'response'; readonly request_hash: string }

/** The bytes that are authenticated beside the ciphertext. */
export function envelopeAad(
  context: EnvelopeContext,
  keyId: string,
  clientPublicKey: string,
  direction: Direction,
): Uint8Array {
  return utf8ToBytes(
    canonicalJson({
      algorithm: envelopeAlgorithm,
      client_public_key_x25519: clientPublicKey,
      job_id: context.jobId,
      key_id: keyId,
      model_id: context.modelId,
      node_id: context.nodeId,
      version: envelopeVersion,
      ...direction,
    }),
  )
}

/** What `aad_hash` must be: hex SHA-256. */
export function requestAadHash(context: EnvelopeContext, keyId: string, clientPublicKey: string): string {
  return bytesToHex(sha256(envelopeAad(context, keyId, clientPublicKey, { direction: 'request' })))
}

export type EnvelopeFault = { readonly field: keyof Envelope; readonly detail: string }

/** The first fault of an envelope that is visible without a key; null for a well-formed one. */
export function envelopeFault(envelope: Envelope): EnvelopeFault | null {
  const fault = (field: keyof Envelope, detail: string): EnvelopeFault => ({ field, detail })
  if (envelope.version !== envelopeVersion) return fault('version', `must be ${envelopeVersion}`)
  if (envelope.algorithm !== envelopeAlgorithm) return fault('algorithm', `must be ${envelopeAlgorithm}`)
  if (base64UrlLength(envelope.key_id) !== keyIdBytes) return fault('key_id', 'must be base64url of 16 bytes')
  if (base64UrlLength(envelope.nonce) !== envelopeNonceBytes) return fault('nonce', 'must be base64url of 12 bytes')
  const ciphertextBytes = base64UrlLength(envelope.ciphertext)
  if (ciphertextBytes === null || ciphertextBytes < tagBytes || ciphertextBytes > ciphertextBytesMax) {
    return fault('ciphertext', `must be base64url of ${tagBytes} to ${ciphertextBytesMax} bytes`)
  }
  if (envelope.aad_hash !== undefined && !hashPattern.test(envelope.aad_hash)) {
    return fault('aad_hash', 'must be 64 lower-case hex digits')
  }
  const publicKey = decodeBase64Url(envelope.client_public_key_x25519)
  if (publicKey?.length !== envelopeKeyBytes || !isUsablePublicKey(publicKey)) {
    return fault('client_public_key_x25519', 'must be base64url of a usable X25519 key')
  }
  return null
}
