import { isAnswer } from './answer.ts'
import type { Candidate, Candidates, SelectingStrategy } from './strategy.ts'

/** The highest weight, then the lowest index (§7); also the order of a degraded fallback. */
export function topWeighted(candidates: Candidates): Candidate {
  return candidates.reduce((best, next) => (next.weight > best.weight ? next : best))
}

export const weighted: SelectingStrategy = {
  kind: 'selecting',
  state: 'weighting',
  quorumDefault: () => 1,
  accepts: isAnswer,
  select: topWeighted,
}
