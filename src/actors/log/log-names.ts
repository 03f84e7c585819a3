import { brand } from '../../brand.ts'
import { sha256 } from '../../protocol/log/merkle-log.ts'
import { noteText } from '../../protocol/log/note.ts'
import { logSigner, type NoteSigner } from '../../protocol/log/note-signing.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'

const nameLength = 16

/** The name of a new log: of the key that signs its first checkpoint. */
export function firstOrigin(keys: readonly SigningKey[]): string {
  const hash = sha256(keys.at(0)?.publicKey ?? '').toHex()
  return `${brand}-log/${hash.slice(0, nameLength)}`
}

export const signersOf = (origin: string, keys: readonly SigningKey[]): readonly NoteSigner[] =>
  keys.map((key) => logSigner(origin, key))

/** Signed by each key of the list, so that a reader who knows only an older one still reads it. */
export function signedNote(text: string, origin: string, keys: readonly SigningKey[]): string {
  return noteText({ text, signatures: signersOf(origin, keys).map((signer) => signer.sign(text)) })
}
