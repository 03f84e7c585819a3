import { decodeBase64, encodeBase64 } from '../signing/base64.ts'
import { sha256 } from './merkle-log.ts'

/** Signed notes of C2SP `signed-note`: a text, an empty line, and signatures by named keys. */

/** As the key's kind stands in a note: a plain Ed25519 signature, or a witness's with its time. */
export const noteKinds = { signature: 1, cosignature: 4 } as const

/** A key by which a note is checked. */
export interface NoteKey {
  readonly name: string
  readonly kind: number
  /** 32 bytes, Ed25519. */
  readonly publicKey: Uint8Array
}

export interface NoteSignature {
  readonly name: string
  /** The first 4 bytes: which key of that name. */
  readonly keyHash: number
  /** What follows them. */
  readonly bytes: Uint8Array
}

export interface Note {
  /** With its last line feed. */
  readonly text: string
  readonly signatures: readonly NoteSignature[]
}

const keyHashBytes = 4
const publicKeyBytes = 32
const noteCharsMax = 256 * 1024
const signaturesMax = 100
const encoder = new TextEncoder()
/** No space, no plus sign, and nothing that a terminal takes for something else. */
const namePattern = /^[\x21-\x2a\x2c-\x7e]{1,200}$/

const bytesOf = (...parts: readonly (Uint8Array | string)[]): Uint8Array => {
  const all = parts.map((part) => (typeof part === 'string' ? encoder.encode(part) : part))
  const joined = new Uint8Array(all.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of all) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

const numberOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, keyHashBytes).getUint32(0)

export function keyHash({ name, kind, publicKey }: NoteKey): number {
  return numberOf(sha256(bytesOf(name, '\n', Uint8Array.of(kind), publicKey)))
}

/** `name+hash+base64`, as verifiers are given it. */
export function noteKeyText(key: NoteKey): string {
  const hash = keyHash(key).toString(16).padStart(8, '0')
  return `${key.name}+${hash}+${encodeBase64(bytesOf(Uint8Array.of(key.kind), key.publicKey))}`
}

/** null for what `noteKeyText` does not write. */
export function parseNoteKey(text: string): NoteKey | null {
  const [name, , ...rest] = text.split('+')
  const bytes = decodeBase64(rest.join('+'))
  if (name === undefined || bytes?.length !== 1 + publicKeyBytes || !namePattern.test(name)) return null
  const key = { name, kind: bytes[0] ?? 0, publicKey: bytes.slice(1) }
  return noteKeyText(key) === text ? key : null
}

export function signatureLine({ name, keyHash: hash, bytes }: NoteSignature): string {
  const head = new Uint8Array(keyHashBytes)
  new DataView(head.buffer).setUint32(0, hash)
  return `\u2014 ${name} ${encodeBase64(bytesOf(head, bytes))}\n`
}

export const noteText = ({ text, signatures }: Note): string => `${text}\n${signatures.map(signatureLine).join('')}`

const linePattern = /^\u2014 ([^ +]+) ([A-Za-z0-9+/=]+)$/

/** null: no signature line. */
export function parseSignatureLine(line: string): NoteSignature | null {
  const [, name, encoded] = linePattern.exec(line) ?? []
  const bytes = decodeBase64(encoded ?? '')
  if (name === undefined || bytes === null || bytes.length <= keyHashBytes || !namePattern.test(name)) return null
  return { name, keyHash: numberOf(bytes), bytes: bytes.slice(keyHashBytes) }
}

/** null: no note. What its signatures are worth says `checkNote` alone. */
export function parseNote(note: string): Note | null {
  const gap = note.lastIndexOf('\n\n')
  if (gap < 0 || note.length > noteCharsMax || !note.endsWith('\n')) return null
  const lines = note.slice(gap + 2, -1).split('\n')
  const signatures = lines.map(parseSignatureLine)
  if (lines.length > signaturesMax || signatures.some((signature) => signature === null)) return null
  return { text: note.slice(0, gap + 1), signatures: signatures as readonly NoteSignature[] }
}

/** Ed25519, strictly: node's or noble's. */
export type VerifyEd25519 = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array) => boolean

const timeBytes = 8
/** The latest time that a date can have. */
const secondsMax = 8.64e12

/** What a witness signs: that it saw this text, at `seconds` (C2SP `tlog-cosignature`). */
export const cosignatureMessage = (text: string, seconds: number): Uint8Array =>
  bytesOf(`cosignature/v1\ntime ${seconds}\n${text}`)

export function cosignatureBytes(seconds: number, signature: Uint8Array): Uint8Array {
  const time = new Uint8Array(timeBytes)
  new DataView(time.buffer).setBigUint64(0, BigInt(seconds))
  return bytesOf(time, signature)
}

/** A signature that holds, and by whom. */
export interface CheckedSignature {
  readonly key: NoteKey
  /** Unix seconds; null: a signature without a time. */
  readonly seconds: number | null
}

function checkSignature(text: string, key: NoteKey, bytes: Uint8Array, verify: VerifyEd25519): CheckedSignature | null {
  if (key.kind === noteKinds.signature) {
    return verify(key.publicKey, encoder.encode(text), bytes) ? { key, seconds: null } : null
  }
  if (key.kind !== noteKinds.cosignature || bytes.length <= timeBytes) return null
  const seconds = Number(new DataView(bytes.buffer, bytes.byteOffset, timeBytes).getBigUint64(0))
  if (seconds > secondsMax) return null
  const holds = verify(key.publicKey, cosignatureMessage(text, seconds), bytes.slice(timeBytes))
  return holds ? { key, seconds } : null
}

/** The signatures by these keys. null: one that names a known key does not hold, which no honest note has. */
export function checkNote(
  { text, signatures }: Note,
  keys: readonly NoteKey[],
  verify: VerifyEd25519,
): readonly CheckedSignature[] | null {
  const checked: CheckedSignature[] = []
  for (const signature of signatures) {
    const key = keys.find((one) => one.name === signature.name && keyHash(one) === signature.keyHash)
    if (key === undefined) continue
    const holds = checkSignature(text, key, signature.bytes, verify)
    if (holds === null) return null
    if (!checked.some((one) => one.key === key)) checked.push(holds)
  }
  return checked
}
