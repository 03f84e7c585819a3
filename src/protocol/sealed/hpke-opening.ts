import { AEAD_AES_256_GCM, CipherSuite, KDF_HKDF_SHA256, KEM_DHKEM_X25519_HKDF_SHA256 } from 'hpke'
import { keyBytes } from './ehbp.ts'
import { exportLabel, requestInfo, type SharedSecret } from './hpke.ts'

/** For agents, whose runtime has all of it: opening costs 0.3 ms of processor time, against 2.3 in plain JavaScript. */
const suite = new CipherSuite(KEM_DHKEM_X25519_HKDF_SHA256, KDF_HKDF_SHA256, AEAD_AES_256_GCM)

export interface OpenedBody extends SharedSecret {
  readonly pieces: readonly Uint8Array[]
}

/** null: not sealed for this key, or changed on its way; callers cannot tell which. */
export async function openBody(
  secretKey: Uint8Array,
  enc: Uint8Array,
  frames: readonly Uint8Array[],
): Promise<OpenedBody | null> {
  try {
    const key = await suite.DeserializePrivateKey(secretKey, false)
    const ctx = await suite.SetupRecipient(key, enc, { info: requestInfo })
    const pieces: Uint8Array[] = []
    for (const frame of frames) pieces.push(await ctx.Open(frame))
    return { enc, pieces, secret: await ctx.Export(exportLabel, keyBytes) }
  } catch {
    return null
  }
}
