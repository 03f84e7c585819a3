import { ed25519 } from '@noble/curves/ed25519.js'
import { sha512 } from '@noble/hashes/sha2.js'
import { concatBytes } from '@noble/hashes/utils.js'

/**
 * Ed25519 without native code, for the page that verifies in a browser, with the verdicts of `ed25519.ts`: RFC 8032 §5.1.7
 * without the cofactor (S·B − k·A must be R to the byte, as native libraries compute it), and keys in their one encoding and
 * not of small order. noble's own check multiplies by the cofactor, and so takes signatures that the others refuse.
 */
const { Point } = ed25519
const order = Point.Fn.ORDER
const keyBytes = 32
const signatureBytes = 64

function littleEndian(bytes: Uint8Array): bigint {
  let value = 0n
  for (let at = bytes.length - 1; at >= 0; at--) value = (value << 8n) | BigInt(bytes[at] ?? 0)
  return value
}

/** The point of a key in its one encoding; null: another encoding, no point, or one of small order. */
function soundPoint(publicKey: Uint8Array) {
  try {
    const point = Point.fromBytes(publicKey, false)
    return point.isSmallOrder() ? null : point
  } catch {
    return null
  }
}

export function verifyEd25519Strictly(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== keyBytes || signature.length !== signatureBytes) return false
  const key = soundPoint(publicKey)
  const commitment = signature.subarray(0, keyBytes)
  const response = littleEndian(signature.subarray(keyBytes))
  if (key === null || response >= order) return false
  const challenge = littleEndian(sha512(concatBytes(commitment, publicKey, message))) % order
  const reached = Point.BASE.multiplyUnsafe(response).subtract(key.multiplyUnsafe(challenge)).toBytes()
  return reached.every((byte, at) => byte === commitment[at])
}
