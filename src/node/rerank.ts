import { Problem } from '../errors.ts'
import { type RerankRequest, type RerankResponse, rerankTopN } from '../protocol/wire/rerank.ts'
import { bestFirst, type DocumentScore, type RankingCall, type RankingTraits } from '../runtimes/rerank.ts'
import { chooseRuntime, type RuntimeView } from './rerank-choice.ts'

/** Each holds a body of up to 8 MiB. */
export const rerankInFlightMax = 64
const busyRetrySeconds = 1

export interface RankJob extends RankingCall {
  readonly topN: number
  readonly ranking: RankingTraits
}

/** Scores in 0–1, any order, at least `topN` of them. Rejects with a `Problem`, or the signal's reason. */
export type Ranker = (job: RankJob, signal: AbortSignal) => Promise<readonly DocumentScore[]>

/** One of the agent's runtimes, as rerank sees it. */
export interface RankingRuntime extends RuntimeView {
  /** null: this kind of server cannot rank. */
  readonly rank: Ranker | null
  /** Counts one more call in flight there, until the returned function is called. */
  begin(): () => void
}

export interface Reranker {
  rank(request: RerankRequest, signal: AbortSignal): Promise<RerankResponse>
  /** Rankings under way. */
  readonly inFlight: number
}

/** Endpoint 1 without its HTTP: which runtime, its scores, the best of them. */
export function createReranker(runtimes: () => readonly RankingRuntime[]): Reranker {
  let inFlight = 0
  return {
    get inFlight() {
      return inFlight
    },
    async rank(request, signal) {
      if (inFlight >= rerankInFlightMax) {
        throw new Problem('runtime_unavailable', {
          detail: `${rerankInFlightMax} rankings run at once at most`,
          retryAfterSeconds: busyRetrySeconds,
        })
      }
      const { runtime, ranking } = chooseRuntime(runtimes(), request)
      if (runtime.rank === null) throw new Problem('modality_not_supported', { param: 'model' })
      const { model, query, documents } = request
      const topN = rerankTopN(request)
      const end = runtime.begin()
      inFlight++
      try {
        const scores = await runtime.rank({ model, query, documents, topN, ranking }, signal)
        const results = bestFirst(scores, topN)
        return { results: results.map(({ index, score }) => ({ index, relevance_score: score })) }
      } finally {
        inFlight--
        end()
      }
    },
  }
}
