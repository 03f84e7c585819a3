import { randomBytes } from 'node:crypto'
import type { PrivateFolder } from '../../host/private-files.ts'
import { PrivateFileError } from '../../host/private-files.ts'
import { fromBase64url, toBase64url } from '../../protocol/signing/base64url.ts'
import { fingerprint, type SigningKey, seedBytes, signingKey } from '../../protocol/signing/ed25519.ts'

export const identityFile = 'identity.json'

/** The identity of this node. Any program that has the file can act as the node. */
export interface Identity {
  readonly key: SigningKey
  /** For people to compare. */
  readonly fingerprint: string
}

/** The first start makes the identity. Later starts never replace an existing file. Throws `PrivateFileError`. */
export function loadIdentity(folder: PrivateFolder): Identity {
  const stored = folder.read(identityFile)
  const seed = stored === undefined ? new Uint8Array(randomBytes(seedBytes)) : storedSeed(stored)
  if (seed?.length !== seedBytes) throw new PrivateFileError(`${folder.path}/${identityFile} is damaged`)
  if (stored === undefined) folder.write(identityFile, { seed_ed25519: toBase64url(seed) })
  const key = signingKey(seed)
  return { key, fingerprint: fingerprint(key.publicKey) ?? '' }
}

function storedSeed(stored: unknown): Uint8Array | null {
  const { seed_ed25519: text } = (stored ?? {}) as { readonly seed_ed25519?: unknown }
  return typeof text === 'string' ? fromBase64url(text, 32) : null
}
