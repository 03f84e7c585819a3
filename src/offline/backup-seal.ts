import type { FileHandle } from 'node:fs/promises'
import { brand } from '../brand.ts'
import { type NoteKey, noteKeyText, noteText, parseNote, parseNoteKey } from '../protocol/log/note.ts'
import type { NoteSigner } from '../protocol/log/note-signing.ts'
import { verifyEd25519 } from '../protocol/signing/ed25519.ts'

/**
 * The end of a backup: how many bytes come before it, their SHA-256, and the signatures of the log's keys over both, as a
 * signed note (C2SP `signed-note`). It is a member of the gzip file of its own, whose text is a comment of SQL, and so can
 * be read from the end of the file before anything else of it.
 */
export interface Seal extends Sealed {
  /** Keys that say that they signed; each did. */
  readonly keys: readonly NoteKey[]
}

interface Sealed {
  readonly bytes: number
  /** Hexadecimal. */
  readonly sha256: string
}

const form = `${brand}-backup-v2`
const comment = '-- '
/** A key takes two lines of about 110 bytes each. */
const keysMax = 64
/** One block that is not compressed holds no more. */
const sealBytesMax = 0xffff
const magic = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff])
const blockHeadBytes = 5
const tailBytes = 8
const aroundBytes = magic.length + blockHeadBytes + tailBytes

/** A member of a gzip file with one block that is not compressed (RFC 1951 §3.2.4, RFC 1952): every byte of it is given. */
export function gzipMember(text: Uint8Array): Buffer {
  const head = Buffer.alloc(blockHeadBytes)
  head.writeUInt8(1, 0)
  head.writeUInt16LE(text.length, 1)
  head.writeUInt16LE(0xffff - text.length, 3)
  const tail = Buffer.alloc(tailBytes)
  tail.writeUInt32LE(Bun.hash.crc32(text), 0)
  tail.writeUInt32LE(text.length, 4)
  return Buffer.concat([magic, head, text, tail])
}

const commented = (text: string) => text.replaceAll(/^(?!$)/gm, comment)
const uncommented = (text: string) => text.replaceAll(new RegExp(`^${comment}`, 'gm'), '')

function sealText({ bytes, sha256 }: Sealed, keys: readonly NoteKey[]): string {
  const lines = [form, `bytes ${bytes}`, `sha256 ${sha256}`, ...keys.map((key) => `key ${noteKeyText(key)}`)]
  return lines.map((line) => `${line}\n`).join('')
}

/** `signers`: newest first; none: the seal shows damage and nothing else. */
export function sealOf(content: Sealed, signers: readonly NoteSigner[]): Buffer {
  const used = signers.slice(0, keysMax)
  const text = sealText(
    content,
    used.map(({ key }) => key),
  )
  const note = used.length === 0 ? text : noteText({ text, signatures: used.map((signer) => signer.sign(text)) })
  return gzipMember(Buffer.from(commented(note)))
}

const sealForm = new RegExp(`^${form}\nbytes ([0-9]{1,15})\nsha256 ([0-9a-f]{64})\n((?:key [^\n]+\n)*)$`)

/** null: no seal, or one that no gateway wrote. `unsound`: a signature in it does not hold. */
function parseSeal(text: string): Seal | 'unsound' | null {
  const note = parseNote(text)
  const [, bytes, sha256 = '', keyLines = ''] = sealForm.exec(note?.text ?? text) ?? []
  if (bytes === undefined) return null
  const names = keyLines.split('\n').filter((line) => line !== '')
  const keys = names.flatMap((line) => parseNoteKey(line.slice('key '.length)) ?? [])
  if (keys.length !== names.length || keys.length > keysMax) return null
  const signed = Buffer.from(note?.text ?? '')
  const holds = keys.every(({ publicKey }) =>
    note?.signatures.some(({ bytes: signature }) => verifyEd25519(publicKey, signed, signature)),
  )
  return holds ? { bytes: Number(bytes), sha256, keys } : 'unsound'
}

/** The seal at the end of a file of this size, which says no more than that it is one: its bytes must be compared. */
export async function readSeal(file: FileHandle, size: number): Promise<Seal | 'unsound' | null> {
  const tail = Buffer.alloc(tailBytes)
  if (size < aroundBytes || (await file.read(tail, 0, tailBytes, size - tailBytes)).bytesRead < tailBytes) return null
  const length = tail.readUInt32LE(4)
  const whole = length + aroundBytes
  if (length > sealBytesMax || whole > size) return null
  const member = Buffer.alloc(whole)
  if ((await file.read(member, 0, whole, size - whole)).bytesRead < whole) return null
  const text = member.subarray(magic.length + blockHeadBytes, whole - tailBytes)
  if (!gzipMember(text).equals(member)) return null
  const seal = parseSeal(uncommented(text.toString('utf8')))
  return seal === null || seal === 'unsound' || seal.bytes === size - whole ? seal : null
}
