import { brand } from '../../brand.ts'
import { type Checkpoint, parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { sameHash, sha256 } from '../../protocol/log/merkle-log.ts'
import { checkNote, noteText, parseNote } from '../../protocol/log/note.ts'
import { logSigner, type NoteSigner } from '../../protocol/log/note-signing.ts'
import { type SigningKey, verifyEd25519 } from '../../protocol/signing/ed25519.ts'

const nameLength = 16

/** The name of a new log: of the key that signs its first checkpoint. */
export function firstOrigin(keys: readonly SigningKey[]): string {
  const hash = sha256(keys.at(0)?.publicKey ?? '').toHex()
  return `${brand}-log/${hash.slice(0, nameLength)}`
}

export const signersOf = (origin: string, keys: readonly SigningKey[]): readonly NoteSigner[] =>
  keys.map((key) => logSigner(origin, key))

/** Whether a key of the list has signed that the log stands there. */
export function isOwnCheckpoint(noteText: string, at: Checkpoint, keys: readonly SigningKey[]): boolean {
  const note = parseNote(noteText)
  const checkpoint = note === null ? null : parseCheckpoint(note.text)
  if (note === null || checkpoint?.origin !== at.origin || checkpoint.size !== at.size) return false
  if (!sameHash(checkpoint.root, at.root)) return false
  const own = signersOf(at.origin, keys).map(({ key }) => key)
  return (checkNote(note, own, verifyEd25519)?.length ?? 0) > 0
}

/** Signed by each key of the list, so that a reader who knows only an older one still reads it. */
export function signedNote(text: string, origin: string, keys: readonly SigningKey[]): string {
  return noteText({ text, signatures: signersOf(origin, keys).map((signer) => signer.sign(text)) })
}
