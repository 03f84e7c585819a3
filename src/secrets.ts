import { timingSafeEqual } from 'node:crypto'
import { tokenPrefixes } from './brand.ts'

export type TokenKind = keyof typeof tokenPrefixes

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const bodyLength = 43
const checksumLength = 6

function toBase62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = base62.charAt(Number(rest % 62n)) + text
  return text
}

function checksum(text: string): string {
  let rest = Bun.hash.crc32(text)
  let sum = ''
  for (let i = 0; i < checksumLength; i++) {
    sum = base62.charAt(rest % 62) + sum
    rest = Math.floor(rest / 62)
  }
  return sum
}

/** `<prefix><43 base62 of 32 random bytes><6 base62 of CRC-32 of all before>` (§4; GitHub's token format). */
export function newToken(kind: TokenKind, random: Uint8Array = crypto.getRandomValues(new Uint8Array(32))): string {
  const text = tokenPrefixes[kind] + toBase62(BigInt(`0x${Buffer.from(random).toString('hex')}`), bodyLength)
  return text + checksum(text)
}

/** True if prefix, length and checksum fit. A mistyped token is refused without a look at the database. */
export function isWellFormedToken(token: string, kind: TokenKind): boolean {
  const prefix = tokenPrefixes[kind]
  if (token.length !== prefix.length + bodyLength + checksumLength || !token.startsWith(prefix)) return false
  const cut = token.length - checksumLength
  return token.slice(cut) === checksum(token.slice(0, cut))
}

/** The part of a token that may be shown later: its first 16 characters. */
export function displayPrefix(token: string): string {
  return token.slice(0, 16)
}

/**
 * HMAC-SHA-256 (RFC 2104). An elliptic-curve or RSA key that WebCrypto refuses leaves its error in the thread, and the next keyed hash of Bun 1.4.5
 * throws it, so that a stranger's certificate fails somebody else's request. Throwing it takes it away.
 */
export function hmacSha256(key: string | Uint8Array, text: string): Buffer {
  const hash = () => Buffer.from(new Bun.CryptoHasher('sha256', key).update(text).digest())
  try {
    return hash()
  } catch {
    return hash()
  }
}

/** With the pepper; 256-bit random tokens need no slow hash (§4). */
export const hashToken = (pepper: string, token: string): Buffer => hmacSha256(pepper, token)

const seedLength = 32

/** A seed of 32 bytes as operators write it: hex, base64 or base64url, padded or not. null for anything else. */
export function readSeed(text: string): Uint8Array | null {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return new Uint8Array(Buffer.from(text, 'hex'))
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return null
  const bytes = new Uint8Array(Buffer.from(text, 'base64'))
  return bytes.length === seedLength ? bytes : null
}

export function sha256Hex(text: string | Uint8Array): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('hex')
}

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Of a token that the gateway or `reset-admin` made: the pepper is not in the database. */
export const roleTokenMark = (pepper: string, tokenHash: Uint8Array, role: string): string =>
  hashToken(pepper, `role-token-mark\0${tokenHash.toHex()}\0${role}`).toString('base64url')
