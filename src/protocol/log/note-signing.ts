import { fromBase64url } from '../signing/base64url.ts'
import { type SigningKey, seedBytes } from '../signing/ed25519.ts'
import { cosignatureBytes, cosignatureMessage, keyHash, type NoteKey, type NoteSignature, noteKinds } from './note.ts'

/** A key that signs notes under one name: as a log, or as a witness of other logs. */
export interface NoteSigner {
  readonly key: NoteKey
  readonly cosigningKey: NoteKey
  sign(text: string): NoteSignature
  /** `seconds`: when the text was seen, Unix. */
  cosign(text: string, seconds: number): NoteSignature
}

const signatureBytes = 64
const raw = (text: string, length: number): Uint8Array => {
  const bytes = fromBase64url(text, length)
  if (bytes === null) throw new Error('a key or signature of another length')
  return bytes
}

export function logSigner(name: string, own: SigningKey): NoteSigner {
  const publicKey = raw(own.publicKey, seedBytes)
  const key = { name, kind: noteKinds.signature, publicKey }
  const cosigningKey = { name, kind: noteKinds.cosignature, publicKey }
  const signed = (message: string | Uint8Array) => raw(own.sign(message), signatureBytes)
  return {
    key,
    cosigningKey,
    sign: (text) => ({ name, keyHash: keyHash(key), bytes: signed(text) }),
    cosign: (text, seconds) => ({
      name,
      keyHash: keyHash(cosigningKey),
      bytes: cosignatureBytes(seconds, signed(cosignatureMessage(text, seconds))),
    }),
  }
}
