import { AEAD_AES_256_GCM, KDF_HKDF_SHA256, KEM_DHKEM_X25519_HKDF_SHA256 } from '@panva/hpke-noble'
import { CipherSuite } from 'hpke'
import { keyBytes, requestLabel, responseLabel } from './ehbp.ts'

/**
 * HPKE as EHBP takes it (RFC 9180, base mode). The library's pure parts, because a browser on plain HTTP has no
 * `crypto.subtle`; they refuse points of low order.
 */
const suite = new CipherSuite(KEM_DHKEM_X25519_HKDF_SHA256, KDF_HKDF_SHA256, AEAD_AES_256_GCM)
export const requestInfo = new TextEncoder().encode(requestLabel)
export const exportLabel = new TextEncoder().encode(responseLabel)

/** A request that was sealed or opened: from `secret` and `enc` follow the keys of its answer. */
export interface SharedSecret {
  readonly enc: Uint8Array
  readonly secret: Uint8Array
}

export interface SealedBody extends SharedSecret {
  /** One per piece, in order. */
  readonly frames: readonly Uint8Array[]
}

/** Seals the pieces of one request. Rejects for what is no public key. */
export async function sealBody(publicKey: Uint8Array, pieces: readonly Uint8Array[]): Promise<SealedBody> {
  const key = await suite.DeserializePublicKey(publicKey)
  const { encapsulatedSecret: enc, ctx } = await suite.SetupSender(key, { info: requestInfo })
  const frames: Uint8Array[] = []
  // The frames are numbered by the context: one after the other.
  for (const piece of pieces) frames.push(await ctx.Seal(piece))
  return { enc, frames, secret: await ctx.Export(exportLabel, keyBytes) }
}

/** A fresh pair, as raw bytes. */
export async function newKeyPair(): Promise<{ readonly publicKey: Uint8Array; readonly secretKey: Uint8Array }> {
  const pair = await suite.GenerateKeyPair(true)
  return {
    publicKey: await suite.SerializePublicKey(pair.publicKey),
    secretKey: await suite.SerializePrivateKey(pair.privateKey),
  }
}
