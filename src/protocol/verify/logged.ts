import { parseLogProof } from '../log/checkpoint.ts'
import { type LogEntryKind, logLeaf } from '../log/log-entry.ts'
import { rootByInclusion, sameHash } from '../log/merkle-log.ts'
import { type Fields, fieldsOf, listOf, textOf } from './given.ts'
import { check, checkCheckpoint, type GivenConsistency, type Trust } from './trust.ts'

export function consistencyIn(given: Fields): readonly GivenConsistency[] {
  return listOf(given.consistency).map((one) => {
    const { from, to, proof } = fieldsOf(one)
    return { from: Number(from), to: Number(to), proof: listOf(proof).map(String) }
  })
}

/** That an entry is below a checkpoint, and what that checkpoint is worth. */
export function logged(kind: LogEntryKind, hash: string, proofText: unknown, given: Fields, trust: Trust) {
  const proof = parseLogProof(textOf(proofText) ?? '')
  if (proof === null) {
    const ok = trust.logNeeded ? false : null
    return { checks: [check('log', ok, 'there is no proof that the log holds it')], checkpoint: null }
  }
  const { checks, checkpoint } = checkCheckpoint(proof.note, trust, consistencyIn(given))
  const root = checkpoint && rootByInclusion(logLeaf({ kind, hash }), proof.index, checkpoint.size, proof.proof)
  const holds = checkpoint !== null && root !== null && sameHash(root, checkpoint.root)
  const detail = holds ? `entry ${proof.index} of ${checkpoint.size}` : 'the proof does not lead to the checkpoint'
  return { checks: [check('log', holds, detail), ...checks], checkpoint }
}
