/**
 * Base64url without padding (RFC 4648 §5), strict: each byte string has exactly one encoding. Without `Buffer`, because
 * a customer's browser seals and opens with it too.
 */
const alphabet = /^[A-Za-z0-9_-]*$/
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** Arguments of one `String.fromCharCode`. */
const sliceBytes = 8 * 1024

/** The number of bytes that the text encodes, or null unless it is canonical. It decodes nothing. */
export function base64UrlLength(text: string): number | null {
  if (!alphabet.test(text)) return null
  const rest = text.length % 4
  if (rest === 1) return null
  // The last letter has 2 or 4 unused bits, which must be zero. Otherwise two texts would mean the same.
  const unusedBits = rest === 2 ? 4 : rest === 3 ? 2 : 0
  const last = letters.indexOf(text.charAt(text.length - 1))
  if (unusedBits > 0 && (last & ((1 << unusedBits) - 1)) !== 0) return null
  return Math.floor((text.length * 3) / 4)
}

/** null unless canonical. */
export function decodeBase64Url(text: string): Uint8Array | null {
  const length = base64UrlLength(text)
  if (length === null) return null
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = new Uint8Array(length)
  for (let i = 0; i < length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}

export function encodeBase64Url(bytes: Uint8Array): string {
  return encodeBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

/** Standard base64 with padding (RFC 4648 §4): signatures and secrets of webhooks. */
export function encodeBase64(bytes: Uint8Array): string {
  let binary = ''
  for (let at = 0; at < bytes.length; at += sliceBytes) {
    binary += String.fromCharCode(...bytes.subarray(at, at + sliceBytes))
  }
  return btoa(binary)
}

const standardAlphabet = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** null unless the text is what `encodeBase64` writes. */
export function decodeBase64(text: string): Uint8Array | null {
  if (!standardAlphabet.test(text)) return null
  const bytes = decodeBase64Url(text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''))
  return bytes !== null && encodeBase64(bytes) === text ? bytes : null
}
