import { chacha20poly1305 } from '@noble/ciphers/chacha.js'
import { x25519 } from '@noble/curves/ed25519.js'
import { expand, extract } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { envelopeVersion } from '../../brand.ts'
import { decodeBase64Url, encodeBase64Url } from './base64.ts'
import {
  type Envelope,
  type EnvelopeContext,
  envelopeAad,
  envelopeAlgorithm,
  envelopeFault,
  envelopeKeyBytes,
  envelopeNonceBytes,
  sharedSecret,
  transportKeyId,
} from './envelope.ts'

/**
 * Opens or seals the one answer to one request. A client that waits elsewhere may keep it, because it opens nothing
 * else.
 */
export interface ResponseKeys {
  /** 32 bytes; a secret. */
  readonly secret: Uint8Array
  readonly clientPublicKey: string
  readonly nodePublicKey: string
  readonly keyId: string
  /** Hexadecimal SHA-256 of the request's ciphertext, so that an answer to another request does not open. */
  readonly requestHash: string
}

/** One error for every envelope that does not open, because the reason would only help an attacker. */
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

/** Only for tests with fixed vectors: a repeated nonce or key reveals the plaintext. */
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
