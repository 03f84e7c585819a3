import { decodeBase64, encodeBase64 } from '../signing/base64.ts'
import { type Tree, type TreeHash, treeHashBytes, treeSizeMax } from './merkle-log.ts'

/** The text of a checkpoint (C2SP `tlog-checkpoint`): which log, how many entries, their root. */
export interface Checkpoint extends Tree {
  readonly origin: string
}

const originPattern = /^[\x21-\x2a\x2c-\x7e]{1,200}$/
const sizePattern = /^(0|[1-9][0-9]{0,15})$/

export function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${encodeBase64(root)}\n`
}

/** null for what `checkpointText` does not write: ours have no further lines. */
export function parseCheckpoint(text: string): Checkpoint | null {
  const [origin, size, encoded] = text.split('\n')
  const root = decodeBase64(encoded ?? '')
  if (origin === undefined || !originPattern.test(origin) || !sizePattern.test(size ?? '')) return null
  if (root?.length !== treeHashBytes || Number(size) > treeSizeMax) return null
  const checkpoint = { origin, size: Number(size), root }
  return checkpointText(checkpoint) === text ? checkpoint : null
}

/** The lines of a proof, for notes and requests. */
export const proofLines = (proof: readonly TreeHash[]): string =>
  proof.map((hash) => `${encodeBase64(hash)}\n`).join('')

/** null unless each is the base64 of 32 bytes. `lines`: without their line feeds. */
export function parseProofLines(lines: readonly string[]): readonly TreeHash[] | null {
  const hashes = lines.map(decodeBase64)
  return hashes.every((hash) => hash?.length === treeHashBytes) ? (hashes as readonly TreeHash[]) : null
}

const proofHead = 'c2sp.org/tlog-proof@v1'
/** A tree of 2^48 entries needs no more. */
export const proofHashesMax = 63

/** An entry's place and the checkpoint it stands below, as one text (C2SP `tlog-proof`). */
export interface LogProof {
  readonly index: number
  readonly proof: readonly TreeHash[]
  /** The signed note. */
  readonly note: string
}

export function logProofText({ index, proof, note }: LogProof): string {
  return `${proofHead}\nindex ${index}\n${proofLines(proof)}\n${note}`
}

/** null for any other form. */
export function parseLogProof(text: string): LogProof | null {
  const gap = text.indexOf('\n\n')
  const [head, place, ...lines] = text.slice(0, Math.max(0, gap)).split('\n')
  const [, index] = /^index (0|[1-9][0-9]{0,15})$/.exec(place ?? '') ?? []
  const proof = lines.length > proofHashesMax ? null : parseProofLines(lines)
  if (head !== proofHead || index === undefined || proof === null) return null
  return { index: Number(index), proof, note: text.slice(gap + 2) }
}
