import { hexToBytes } from '@noble/hashes/utils.js'

/**
 * The names and numbers of EHBP, the Encrypted HTTP Body Protocol (tinfoilsh/encrypted-http-body-protocol, SPEC.md), as
 * everybody speaks it here: clients, the relaying gateway, agents.
 */

/** The client's half of the key exchange: 32 bytes as 64 lower-case hex digits. */
export const encapsulatedKeyHeader = 'ehbp-encapsulated-key'
/** 32 random bytes of the node, as hex: the salt of the answer's keys. */
export const responseNonceHeader = 'ehbp-response-nonce'
export const keyConfigType = 'application/ohttp-keys'
export const keyConfigPath = '/.well-known/hpke-keys'
/** `type` of the problem that says: fetch the keys again and seal anew. */
export const keyMismatchType = 'urn:ietf:params:ehbp:error:key-config'

export const requestLabel = 'ehbp request'
export const responseLabel = 'ehbp response'
export const keyBytes = 32
export const aeadNonceBytes = 12
export const tagBytes = 16
export const lengthBytes = 4

const hex32 = /^[0-9a-f]{64}$/

/** The 32 bytes of either header; null for any other form. */
export function readHex32(text: string | null): Uint8Array | null {
  return text === null || !hex32.test(text) ? null : hexToBytes(text)
}
