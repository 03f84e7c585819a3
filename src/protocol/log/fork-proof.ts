import { foreignJson } from '../json/foreign-json.ts'
import { decodeBase64, encodeBase64 } from '../signing/base64.ts'
import { type Checkpoint, parseCheckpoint, parseProofLines, proofHashesMax } from './checkpoint.ts'
import { forkHash } from './entry-facts.ts'
import { logLeaf } from './log-entry.ts'
import { isConsistent, rootByInclusion, sameHash, type TreeHash } from './merkle-log.ts'
import { parseNote } from './note.ts'
import { isEarlier } from './origins.ts'

/** What a fork's entry commits to, and the way from it to the root of a checkpoint. */
export interface ForkProof {
  /** The name under which the log went on. */
  readonly origin: string
  /** Entries before this one, which is its own place. */
  readonly size: number
  /** The root then, hex. */
  readonly root: string
  /** The signed note of the checkpoint that was lost. */
  readonly lost: string
  readonly proof: readonly TreeHash[]
}

/** As files, answers and headers have it. */
export const writtenFork = ({ proof, ...facts }: ForkProof) => ({ ...facts, proof: proof.map(encodeBase64) })

/** null: it is of another form. */
export function readFork(value: unknown): ForkProof | null {
  const { origin, size, root, lost, proof } = (value ?? {}) as Readonly<Record<string, unknown>>
  if (typeof origin !== 'string' || typeof root !== 'string' || typeof lost !== 'string') return null
  if (!Number.isSafeInteger(size) || Number(size) < 0 || !Array.isArray(proof) || proof.length > proofHashesMax)
    return null
  if (![origin, root, lost].every((text) => text.isWellFormed())) return null
  const hashes = parseProofLines(proof.map((one: unknown) => (typeof one === 'string' ? one : '')))
  return hashes === null ? null : { origin, size: Number(size), root, lost, proof: hashes }
}

const encoder = new TextEncoder()
export const forkHeader = (fork: ForkProof): string => encodeBase64(encoder.encode(JSON.stringify(writtenFork(fork))))
export function readForkHeader(text: string): ForkProof | null {
  const bytes = decodeBase64(text)
  return bytes === null ? null : readFork(foreignJson(new TextDecoder().decode(bytes)))
}

export const checkpointIn = (note: string): Checkpoint | null => parseCheckpoint(parseNote(note)?.text ?? '')

/** Whether the entry of this fork is below the checkpoint. */
function isLogged(fork: ForkProof, now: Checkpoint): boolean {
  const hash = forkHash({ origin: fork.origin, size: fork.size, root: fork.root, lostNote: fork.lost })
  const root = rootByInclusion(logLeaf({ kind: 'fork', hash }), fork.size, now.size, fork.proof)
  return root !== null && sameHash(root, now.root)
}

/** Whether a fork's entry names this very checkpoint as the one that was lost. */
export function isLostBy(before: Checkpoint, lostNote: string): boolean {
  const lost = checkpointIn(lostNote)
  return lost?.origin === before.origin && lost.size === before.size && sameHash(lost.root, before.root)
}

/**
 * Whether a log under a later name is the one of which `before` was seen, as its fork's entry says it below `now` (§36):
 * either all that was seen is still in it (`consistency` from there), or that very checkpoint is the one it admits to have lost.
 */
export function followsFork(
  before: Checkpoint,
  now: Checkpoint,
  fork: ForkProof,
  consistency: readonly TreeHash[] | null,
): boolean {
  if (!isEarlier(before.origin, fork.origin) || !isLogged(fork, now)) return false
  if (fork.origin !== now.origin && !isEarlier(fork.origin, now.origin)) return false
  if (isLostBy(before, fork.lost)) return true
  return fork.origin === now.origin && consistency !== null && isConsistent(before, now, consistency)
}
