import { keyBytes } from './ehbp.ts'

/** Key id 0, DHKEM(X25519, HKDF-SHA256). */
const head = [0, 0x00, 0x20] as const
/** Four bytes of suites: HKDF-SHA256 with AES-256-GCM. */
const suites = [0, 4, 0x00, 0x01, 0x00, 0x02] as const
const keyConfigBytes = head.length + keyBytes + suites.length

/** RFC 9458 §3.1: the one configuration in which EHBP publishes a key. */
export function keyConfigOf(publicKey: Uint8Array): Uint8Array {
  if (publicKey.length !== keyBytes) throw new RangeError('an X25519 key has 32 bytes')
  return Uint8Array.from([...head, ...publicKey, ...suites])
}

/** The public key of a configuration; null for another suite or form. */
export function readKeyConfig(config: Uint8Array): Uint8Array | null {
  if (config.length !== keyConfigBytes) return null
  const publicKey = config.slice(head.length, head.length + keyBytes)
  const same = keyConfigOf(publicKey).every((byte, at) => byte === config[at])
  return same ? publicKey : null
}
