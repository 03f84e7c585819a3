import { chacha20poly1305 } from '@noble/ciphers/chacha.js'
import { x25519 } from '@noble/curves/ed25519.js'
import { expand, extract } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { envelopeVersion } from '../brand.ts'
import { base64UrlLength, decodeBase64Url, encodeBase64Url } from './base64.ts'
import { canonicalJson } from './canonical-json.ts'

/** X25519, HKDF-SHA-256, ChaCha20-Poly1305. Not HPKE: the nonce stands on the wire (decisions §10). */
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

/** What both directions are bound to beside the keys. `jobId`: the client's own, `''` where it sent none. */
export interface EnvelopeContext {
  readonly jobId: string
  readonly modelId: string
  readonly nodeId: string
}

/** What opens or seals the one answer to one request. A client that waits elsewhere may keep it; it opens nothing else. */
export interface ResponseKeys {
  /** 32 bytes; a secret. */
  readonly secret: Uint8Array
  readonly clientPublicKey: string
  readonly nodePublicKey: string
  readonly keyId: string
  /** Hex SHA-256 of the request's ciphertext: an answer to another request does not open. */
  readonly requestHash: string
}

export const envelopeKeyBytes = 32
export const envelopeNonceBytes = 12
const tagBytes = 16
export const ciphertextBytesMax = 6 * 1024 * 1024
const keyIdBytes = 16
const hashPattern = /^[0-9a-f]{64}$/
/** Any scalar tells a point of low order, by the shared secret being zero. */
const probeScalar = new Uint8Array(envelopeKeyBytes).fill(1)

/** One code for every way in which an envelope does not open: which it was would help an attacker only. */
export class EnvelopeError extends Error {
  override readonly name = 'EnvelopeError'
  constructor() {
    super('the envelope does not open')
  }
}

/** Length as 16 bits, big-endian, before the bytes. */
function prefixed(text: string): Uint8Array {
  const bytes = utf8ToBytes(text)
  return concatBytes(Uint8Array.of(bytes.length >> 8, bytes.length & 0xff), bytes)
}

const salt = utf8ToBytes(envelopeVersion)
const suite = concatBytes(prefixed(envelopeVersion), prefixed(envelopeAlgorithm))

/** Binds suite, purpose, key id and both public keys (RFC 9180's kem_context and suite_id). */
function info(label: string, keyId: string, clientPublicKey: Uint8Array, nodePublicKey: Uint8Array): Uint8Array {
  return concatBytes(suite, prefixed(label), prefixed(keyId), clientPublicKey, nodePublicKey)
}

/** base64url of the first 16 bytes of SHA-256 of the node's public key. */
export function transportKeyId(nodePublicKey: Uint8Array): string {
  return encodeBase64Url(sha256(nodePublicKey).subarray(0, keyIdBytes))
}

/** False for the points whose shared secret is zero with every key. */
export function isUsablePublicKey(publicKey: Uint8Array): boolean {
  return sharedSecret(probeScalar, publicKey) !== null
}

function sharedSecret(secretKey: Uint8Array, publicKey: Uint8Array): Uint8Array | null {
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

/** What is wrong with an envelope as anyone can see it, without a key; null when nothing is. */
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

interface DerivedKeys {
  readonly request: Uint8Array
  readonly responseSecret: Uint8Array
}

function deriveKeys(
  shared: Uint8Array,
  keyId: string,
  clientPublicKey: Uint8Array,
  nodePublicKey: Uint8Array,
): DerivedKeys {
  const prk = extract(sha256, shared, salt)
  const key = (label: string) =>
    expand(sha256, prk, info(label, keyId, clientPublicKey, nodePublicKey), envelopeKeyBytes)
  return { request: key('request key'), responseSecret: key('response secret') }
}

/** A key of its own per answer, salted by the client's key and the answer's nonce (RFC 9458 §4.4). */
function responseKey(keys: ResponseKeys, nonce: Uint8Array): Uint8Array {
  const clientKey = decodeBase64Url(keys.clientPublicKey)
  const nodeKey = decodeBase64Url(keys.nodePublicKey)
  if (clientKey === null || nodeKey === null) throw new EnvelopeError()
  const prk = extract(sha256, keys.secret, concatBytes(clientKey, nonce))
  return expand(sha256, prk, info('response key', keys.keyId, clientKey, nodeKey), envelopeKeyBytes)
}

export interface SealedRequest {
  readonly envelope: Envelope
  readonly responseKeys: ResponseKeys
}

/** For tests of the vectors alone: a nonce or a key that is used twice gives the plaintext away. */
export interface FixedRandomness {
  readonly secretKey?: Uint8Array
  readonly nonce?: Uint8Array
}

const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes))

/** Seals for one node, under a fresh key. Throws `EnvelopeError` for a public key of low order. */
export function sealRequest(
  nodePublicKey: Uint8Array,
  context: EnvelopeContext,
  plaintext: Uint8Array,
  { secretKey = random(envelopeKeyBytes), nonce = random(envelopeNonceBytes) }: FixedRandomness = {},
): SealedRequest {
  const shared = sharedSecret(secretKey, nodePublicKey)
  if (shared === null) throw new EnvelopeError()
  const keyId = transportKeyId(nodePublicKey)
  const clientKey = x25519.getPublicKey(secretKey)
  const clientPublicKey = encodeBase64Url(clientKey)
  const keys = deriveKeys(shared, keyId, clientKey, nodePublicKey)
  const aad = envelopeAad(context, keyId, clientPublicKey, { direction: 'request' })
  const ciphertext = chacha20poly1305(keys.request, nonce, aad).encrypt(plaintext)
  return {
    envelope: envelopeOf(keyId, clientPublicKey, nonce, ciphertext, aad),
    responseKeys: {
      secret: keys.responseSecret,
      clientPublicKey,
      nodePublicKey: encodeBase64Url(nodePublicKey),
      keyId,
      requestHash: bytesToHex(sha256(ciphertext)),
    },
  }
}

function envelopeOf(
  keyId: string,
  clientPublicKey: string,
  nonce: Uint8Array,
  ciphertext: Uint8Array,
  aad: Uint8Array,
): Envelope {
  return {
    version: envelopeVersion,
    key_id: keyId,
    algorithm: envelopeAlgorithm,
    client_public_key_x25519: clientPublicKey,
    nonce: encodeBase64Url(nonce),
    ciphertext: encodeBase64Url(ciphertext),
    aad_hash: bytesToHex(sha256(aad)),
  }
}

export interface OpenedRequest {
  readonly plaintext: Uint8Array
  readonly responseKeys: ResponseKeys
}

/** The node's side. Throws `EnvelopeError`, whatever is wrong. */
export function openRequest(nodeSecretKey: Uint8Array, context: EnvelopeContext, envelope: Envelope): OpenedRequest {
  const parts = partsOf(envelope)
  const nodePublicKey = x25519.getPublicKey(nodeSecretKey)
  const shared = sharedSecret(nodeSecretKey, parts.clientKey)
  if (shared === null || envelope.key_id !== transportKeyId(nodePublicKey)) throw new EnvelopeError()
  const keys = deriveKeys(shared, envelope.key_id, parts.clientKey, nodePublicKey)
  const clientPublicKey = envelope.client_public_key_x25519
  const aad = envelopeAad(context, envelope.key_id, clientPublicKey, { direction: 'request' })
  return {
    plaintext: decrypt(keys.request, parts.nonce, aad, parts.ciphertext, envelope.aad_hash),
    responseKeys: {
      secret: keys.responseSecret,
      clientPublicKey,
      nodePublicKey: encodeBase64Url(nodePublicKey),
      keyId: envelope.key_id,
      requestHash: bytesToHex(sha256(parts.ciphertext)),
    },
  }
}

/** The node's answer. One per request: a second one has a fresh nonce, and with it a key of its own. */
export function sealResponse(
  keys: ResponseKeys,
  context: EnvelopeContext,
  plaintext: Uint8Array,
  { nonce = random(envelopeNonceBytes) }: Pick<FixedRandomness, 'nonce'> = {},
): Envelope {
  const aad = responseAad(keys, context)
  const key = responseKey(keys, nonce)
  const ciphertext = chacha20poly1305(key, nonce, aad).encrypt(plaintext)
  return envelopeOf(keys.keyId, keys.clientPublicKey, nonce, ciphertext, aad)
}

/** The client's side. Throws `EnvelopeError`, also for the answer to another request. */
export function openResponse(keys: ResponseKeys, context: EnvelopeContext, envelope: Envelope): Uint8Array {
  const parts = partsOf(envelope)
  if (envelope.key_id !== keys.keyId || envelope.client_public_key_x25519 !== keys.clientPublicKey) {
    throw new EnvelopeError()
  }
  return decrypt(
    responseKey(keys, parts.nonce),
    parts.nonce,
    responseAad(keys, context),
    parts.ciphertext,
    envelope.aad_hash,
  )
}

const responseAad = (keys: ResponseKeys, context: EnvelopeContext) =>
  envelopeAad(context, keys.keyId, keys.clientPublicKey, { direction: 'response', request_hash: keys.requestHash })

function partsOf(envelope: Envelope) {
  if (envelopeFault(envelope) !== null) throw new EnvelopeError()
  const clientKey = decodeBase64Url(envelope.client_public_key_x25519)
  const nonce = decodeBase64Url(envelope.nonce)
  const ciphertext = decodeBase64Url(envelope.ciphertext)
  if (clientKey === null || nonce === null || ciphertext === null) throw new EnvelopeError()
  return { clientKey, nonce, ciphertext }
}

function decrypt(
  key: Uint8Array,
  nonce: Uint8Array,
  aad: Uint8Array,
  ciphertext: Uint8Array,
  aadHash: string | undefined,
): Uint8Array {
  if (aadHash !== undefined && aadHash !== bytesToHex(sha256(aad))) throw new EnvelopeError()
  try {
    return chacha20poly1305(key, nonce, aad).decrypt(ciphertext)
  } catch {
    throw new EnvelopeError()
  }
}
