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

/** The name in a checkpoint's note; empty where there is none. */
export const originOf = (note: string): string => parseCheckpoint(parseNote(note)?.text ?? '')?.origin ?? ''

export const signersOf = (origin: string, keys: readonly SigningKey[]): readonly NoteSigner[] =>
  keys.map((key) => logSigner(origin, key))

/** Whether a note says that the log stands there; its signatures are not looked at. */
export function saysSo(noteText: string, at: Checkpoint): boolean {
  const checkpoint = parseCheckpoint(parseNote(noteText)?.text ?? '')
  return checkpoint?.origin === at.origin && checkpoint.size === at.size && sameHash(checkpoint.root, at.root)
}

/** Whether a key of the list has signed a note in the name of this log. */
export function isOwnNote(noteText: string, origin: string, keys: readonly SigningKey[]): boolean {
  const note = parseNote(noteText)
  const own = signersOf(origin, keys).map(({ key }) => key)
  return note !== null && (checkNote(note, own, verifyEd25519)?.length ?? 0) > 0
}

/** Whether a key of the list has signed that the log stands there. */
export const isOwnCheckpoint = (noteText: string, at: Checkpoint, keys: readonly SigningKey[]): boolean =>
  saysSo(noteText, at) && isOwnNote(noteText, at.origin, keys)

const namedMax = 4

/** The keys that a note names as the log's own, as `/v1/public/log/keys` begins with them: name and hash. */
export function keysNamedIn(noteText: string, origin: string): string {
  const own = (parseNote(noteText)?.signatures ?? []).filter(({ name }) => name === origin)
  return own
    .slice(0, namedMax)
    .map(({ keyHash }) => `${origin}+${keyHash.toString(16).padStart(8, '0')}`)
    .join(' ')
}

/** Signed by each key of the list, so that a reader who knows only an older one still reads it. */
export function signedNote(text: string, origin: string, keys: readonly SigningKey[]): string {
  return noteText({ text, signatures: signersOf(origin, keys).map((signer) => signer.sign(text)) })
}
