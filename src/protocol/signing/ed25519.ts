import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { ed25519 } from '@noble/curves/ed25519.js'
import { fromBase64url, toBase64url } from './base64url.ts'

/**
 * Ed25519 as every signature of the protocol uses it (RFC 8032; specification §15). The native code signs and checks (11
 * and 41 µs, against 239 and 361 µs of plain JavaScript); since it takes keys of small order, under which one signature
 * fits any message, those are refused when a key is read.
 */
export interface SigningKey {
  /** base64url, 43 characters. */
  readonly publicKey: string
  readonly keyId: string
  /** base64url, 86 characters. */
  sign(message: string | Uint8Array): string
}

export interface VerifyKey {
  readonly publicKey: string
  readonly keyId: string
  /** Returns false also for a text that is not a signature. */
  verify(message: string | Uint8Array, signature: string): boolean
}

export const seedBytes = 32
const publicKeyBytes = 32
const signatureBytes = 64
const pkcs8Head = Buffer.from('302e020100300506032b657004220420', 'hex')
const spkiHead = Buffer.from('302a300506032b6570032100', 'hex')

const bytesOf = (message: string | Uint8Array) => (typeof message === 'string' ? Buffer.from(message) : message)

/** `seed`: 32 bytes. */
export function signingKey(seed: Uint8Array): SigningKey {
  if (seed.length !== seedBytes) throw new RangeError('an Ed25519 seed has 32 bytes')
  const key = createPrivateKey({ key: Buffer.concat([pkcs8Head, seed]), format: 'der', type: 'pkcs8' })
  const publicKey = rawPublicKey(createPublicKey(key))
  return {
    publicKey: toBase64url(publicKey),
    keyId: keyIdOf(publicKey),
    sign: (message) => sign(null, bytesOf(message), key).toString('base64url'),
  }
}

function rawPublicKey(key: KeyObject): Uint8Array {
  return new Uint8Array(key.export({ format: 'der', type: 'spki' }).subarray(spkiHead.length))
}

/** null if the text is not a public key, or a key of small order. */
export function verifyKey(publicKey: string): VerifyKey | null {
  const raw = fromBase64url(publicKey, publicKeyBytes)
  if (raw === null || !isSoundPoint(raw)) return null
  const key = createPublicKey({ key: Buffer.concat([spkiHead, raw]), format: 'der', type: 'spki' })
  return { publicKey, keyId: keyIdOf(raw), verify: (message, text) => checks(key, bytesOf(message), text) }
}

function isSoundPoint(raw: Uint8Array): boolean {
  try {
    return !ed25519.Point.fromBytes(raw, false).isSmallOrder()
  } catch {
    return false
  }
}

/** Accepts padding (§15) and no other spelling. */
function checks(key: KeyObject, message: Uint8Array, text: string): boolean {
  const signature = fromBase64url(text.replace(/={1,2}$/, ''), signatureBytes)
  return signature !== null && verify(null, message, key, signature)
}

/** Names a public key of 32 bytes, of either curve: base64url of the first 16 bytes of its SHA-256 (§10). */
export function keyIdOf(publicKey: Uint8Array): string {
  return createHash('sha256').update(publicKey).digest().subarray(0, 16).toString('base64url')
}

/** For people to compare: `SHA256:` and the hash of the public key in base64url. null if the text is not a key. */
export function fingerprint(publicKey: string): string | null {
  const raw = fromBase64url(publicKey, publicKeyBytes)
  return raw === null ? null : `SHA256:${createHash('sha256').update(raw).digest('base64url')}`
}

/** As `VerifyKey.verify`, with everything in bytes. */
export function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  return verifyKey(toBase64url(publicKey))?.verify(message, toBase64url(signature)) === true
}
