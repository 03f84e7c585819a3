import { expand, extract } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import { aeadNonceBytes, keyBytes } from './ehbp.ts'

/** The keys of one answer. */
export interface ResponseKeys {
  /** AES-256. */
  readonly key: Uint8Array
  /** Of frame 0; see `frameNonce`. */
  readonly baseNonce: Uint8Array
}

/** RFC 9458 §4.4 as EHBP §4.4.1 takes it. `secret`: the request's HPKE export; `enc`, `nonce`: of the two headers. */
export function responseKeys(secret: Uint8Array, enc: Uint8Array, nonce: Uint8Array): ResponseKeys {
  const salt = new Uint8Array(enc.length + nonce.length)
  salt.set(enc)
  salt.set(nonce, enc.length)
  const prk = extract(sha256, secret, salt)
  return {
    key: expand(sha256, prk, utf8ToBytes('key'), keyBytes),
    baseNonce: expand(sha256, prk, utf8ToBytes('nonce'), aeadNonceBytes),
  }
}

/** The base nonce XOR the number of the frame, big-endian. Empty frames have no number. */
export function frameNonce(baseNonce: Uint8Array, frame: number): Uint8Array {
  const nonce = baseNonce.slice()
  for (let at = nonce.length - 1, left = frame; left > 0; at--) {
    nonce[at] = (nonce[at] ?? 0) ^ (left & 0xff)
    left = Math.floor(left / 256)
  }
  return nonce
}
