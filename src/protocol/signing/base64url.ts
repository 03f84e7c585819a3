/**
 * base64url without padding, read strictly (RFC 4648 §5, §3.5; specification §10): of the texts that decode to the same
 * bytes only the one that `toBase64url` writes is taken, so that a value has one spelling in signed and hashed texts.
 */
export function toBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}

/** null for any other length, alphabet or spelling. `length` in bytes. */
export function fromBase64url(text: string, length: number): Uint8Array | null {
  if (text.length !== Math.ceil((length * 4) / 3)) return null
  const bytes = Buffer.from(text, 'base64url')
  return bytes.length === length && bytes.toString('base64url') === text ? new Uint8Array(bytes) : null
}
