import { parseProofLines, proofHashesMax, proofLines } from './checkpoint.ts'
import type { TreeHash } from './merkle-log.ts'

/** What a log asks of a witness (C2SP `tlog-witness`, `add-checkpoint`). */
export interface WitnessRequest {
  /** The size that the witness signed last, as far as the log knows. */
  readonly oldSize: number
  readonly proof: readonly TreeHash[]
  /** The signed note. */
  readonly note: string
}

export const witnessBytesMax = 16 * 1024
/** Of an answer 409: the size that the witness signed last. */
export const sizeMediaType = 'text/x.tlog.size'

export const witnessRequestText = ({ oldSize, proof, note }: WitnessRequest): string =>
  `old ${oldSize}\n${proofLines(proof)}\n${note}`

/** null for any other form. */
export function parseWitnessRequest(text: string): WitnessRequest | null {
  const gap = text.indexOf('\n\n')
  const [old, ...lines] = text.slice(0, Math.max(0, gap)).split('\n')
  const [, oldSize] = /^old (0|[1-9][0-9]{0,15})$/.exec(old ?? '') ?? []
  const proof = lines.length > proofHashesMax ? null : parseProofLines(lines)
  if (oldSize === undefined || proof === null || text.length > witnessBytesMax) return null
  return { oldSize: Number(oldSize), proof, note: text.slice(gap + 2) }
}
