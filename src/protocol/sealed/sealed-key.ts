import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { brand } from '../../brand.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import { decodeBase64Url, encodeBase64Url } from '../signing/base64.ts'
import type { SealedKey } from '../wire/nodes/sealed-key.ts'
import { readKeyConfig } from './key-config.ts'

const keyIdBytes = 16

/** What a node's identity signs of a key for sealed inference. */
export function sealedKeyMessage(key: Omit<SealedKey, 'signature_ed25519'>): string {
  const { signature_ed25519: _, ...signed } = key as SealedKey
  return `${brand}-sealed-key-v1:${bytesToHex(sha256(utf8ToBytes(canonicalJson(signed))))}`
}

export const sealedKeyId = (publicKey: Uint8Array): string => encodeBase64Url(sha256(publicKey).subarray(0, keyIdBytes))

/** The X25519 key in it; null if its form, its suite or its id is wrong. Whether it is signed is another question. */
export function publicKeyOf({ key_config: config, key_id: id }: SealedKey): Uint8Array | null {
  const bytes = decodeBase64Url(config)
  const publicKey = bytes === null ? null : readKeyConfig(bytes)
  return publicKey !== null && sealedKeyId(publicKey) === id ? publicKey : null
}
