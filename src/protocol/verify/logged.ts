import { type Checkpoint, parseLogProof, parseProofLines, proofHashesMax } from '../log/checkpoint.ts'
import { cutoffHash } from '../log/entry-facts.ts'
import { readFork } from '../log/fork-proof.ts'
import { type LogEntryKind, logLeaf } from '../log/log-entry.ts'
import { rootByInclusion, sameHash } from '../log/merkle-log.ts'
import { type Fields, fieldsOf, listOf, textOf, textsOf, wholeOf } from './given.ts'
import { type Check, check, checkCheckpoint, type GivenGrowth, type Trust } from './trust.ts'

/** More than a log can have. */
const forksMax = 64

export function growthIn(given: Fields): GivenGrowth {
  const consistency = listOf(given.consistency).map((one) => {
    const { from, to, proof } = fieldsOf(one)
    return { from: wholeOf(from), to: wholeOf(to), proof: textsOf(proof) }
  })
  const forks = listOf(given.forks)
    .slice(0, forksMax)
    .flatMap((one) => readFork(one) ?? [])
  return { consistency, forks }
}

/** What is said of an entry's place. */
export interface LoggedPlace {
  readonly checks: readonly Check[]
  readonly checkpoint: Checkpoint | null
  /** null: nothing shows that the log holds it. */
  readonly index: number | null
}

/** That an entry is below a checkpoint, and what that checkpoint is worth. */
export function logged(kind: LogEntryKind, hash: string, proofText: unknown, given: Fields, trust: Trust): LoggedPlace {
  const proof = parseLogProof(textOf(proofText) ?? '')
  if (proof === null) {
    const ok = trust.logNeeded ? false : null
    return { checks: [check('log', ok, 'there is no proof that the log holds it')], checkpoint: null, index: null }
  }
  const { checks, checkpoint } = checkCheckpoint(proof.note, trust, growthIn(given))
  const root = checkpoint && rootByInclusion(logLeaf({ kind, hash }), proof.index, checkpoint.size, proof.proof)
  const holds = checkpoint !== null && root !== null && sameHash(root, checkpoint.root)
  const detail = holds ? `entry ${proof.index} of ${checkpoint.size}` : 'the proof does not lead to the checkpoint'
  return { checks: [check('log', holds, detail), ...checks], checkpoint, index: holds ? proof.index : null }
}

/**
 * How many receipts lack their node's signature because they are from before nodes signed all, by the log's entry of the
 * kind `cutoff`; null unless the entry is below this checkpoint and behind this place.
 */
export function beforeCutoff(given: unknown, { index, checkpoint }: LoggedPlace): number | null {
  const { size: givenSize, root, unsigned, unsigned_hash: unsignedHash, proof } = fieldsOf(given)
  const [size, count] = [wholeOf(givenSize), wholeOf(unsigned)]
  const lines = textsOf(proof)
  const path = lines.length > proofHashesMax ? null : parseProofLines(lines)
  if (checkpoint === null || index === null || index >= size || count < 1 || path === null) return null
  const facts = { size, root: textOf(root) ?? '', unsigned: count, unsignedHash: textOf(unsignedHash) ?? '' }
  const leaf = logLeaf({ kind: 'cutoff', hash: cutoffHash(facts) })
  const reached = rootByInclusion(leaf, size, checkpoint.size, path)
  return reached !== null && sameHash(reached, checkpoint.root) ? count : null
}
