import type { RankingCall, RankingTraits } from '../../runtimes/ranking.ts'
import type { DocumentScore } from '../../runtimes/rerank.ts'

export interface RankJob extends RankingCall {
  readonly topN: number
  readonly ranking: RankingTraits
}

/** Scores in 0–1, any order, at least `topN` of them. Rejects with a `Problem`, or the signal's reason. */
export type Ranker = (job: RankJob, signal: AbortSignal) => Promise<readonly DocumentScore[]>
