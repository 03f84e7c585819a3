import { lexicalScores, lexicalStatus } from '../runtimes/lexical.ts'
import type { RuntimeStatus } from '../runtimes/runtime.ts'
import type { Ranker, RankingRuntime } from './rerank.ts'

const rank: Ranker = async ({ query, documents }, signal) => {
  const scores = await lexicalScores(query, documents, signal)
  return scores.map((score, index) => ({ index, score }))
}

/** The runtime that is always installed, so that a fresh machine ranks; `runtimeId` is kept over restarts. */
export function lexicalRuntime(runtimeId: string): RankingRuntime & { readonly status: RuntimeStatus } {
  let inFlight = 0
  return {
    runtimeId,
    rank,
    get inFlight() {
      return inFlight
    },
    get status() {
      return lexicalStatus(inFlight)
    },
    begin() {
      inFlight++
      let over = false
      return () => {
        if (!over) inFlight--
        over = true
      }
    },
  }
}
