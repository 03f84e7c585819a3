import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { carriedRanking } from '../../protocol/dialects/members/unlisted.ts'
import { type RerankRequest, type RerankResponse, rerankTopN } from '../../protocol/wire/inference/rerank.ts'
import { runtimeModules } from '../../runtimes/registry.ts'
import { bestFirst } from '../../runtimes/rerank.ts'
import { chooseRuntime } from '../runtimes/choose-runtime.ts'
import type { LocalRuntime } from '../runtimes/local-runtime.ts'
import { lexicalRanker } from './lexical-runtime.ts'
import { serverRanker } from './rerank-server.ts'

/** Each holds a body of up to 8 MiB. */
export const rerankInFlightMax = 64
const busyRetrySeconds = 1
/** For one ranking by a model server, ms. */
const timeoutMsDefault = 120_000

export interface RerankerOptions {
  readonly runtimes: () => readonly LocalRuntime[]
  readonly timeoutMs?: number
}

/** Endpoint 1 without its HTTP: which runtime, its scores, the best of them. */
export class Reranker {
  /** Rankings under way. */
  inFlight = 0
  private stopping = false
  private emptied: (() => void) | null = null

  constructor(private readonly options: RerankerOptions) {}

  async rank(request: RerankRequest, signal: AbortSignal): Promise<RerankResponse> {
    if (this.stopping) throw new Problem('service_unavailable')
    if (this.inFlight >= rerankInFlightMax) throw busy()
    const { runtime_id: runtimeId = null, ...asked } = request
    const { model, query, documents } = asked
    const runtime = chooseRuntime(this.options.runtimes(), { model, modality: 'rerank', runtimeId })
    const topN = rerankTopN(request)
    this.inFlight++
    const call = runtime.begin()
    try {
      await call.opened(signal)
      const { rank, ranking } = rankingOf(runtime, model, this.options.timeoutMs ?? timeoutMsDefault)
      const scores = await rank({ model, query, documents, more: carriedRanking(asked), topN, ranking }, signal)
      const results = bestFirst(scores, topN)
      return { results: results.map(({ index, score }) => ({ index, relevance_score: score })) }
    } finally {
      call.end()
      this.inFlight--
      if (this.inFlight === 0) this.emptied?.()
    }
  }

  /** Takes nothing new; resolves when nothing is under way, or after `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true
    if (this.inFlight === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.emptied = resolve
    await waitAtMost(graceMs, promise)
  }
}

const busy = () =>
  new Problem('runtime_unavailable', {
    detail: `At most ${rerankInFlightMax} rerank requests may run at once`,
    retryAfterSeconds: busyRetrySeconds,
  })

/** A runtime that is part of the agent is the lexical one; a server of a kind that cannot rank has no such models. */
function rankingOf({ transport, kind, models }: LocalRuntime, id: string, timeoutMs: number) {
  const ranking = models.find((model) => model.id === id)?.ranking
  const dialect = runtimeModules.find((module) => module.kind === kind)?.rerank
  if (ranking === undefined) throw new Problem('modality_not_supported', { param: 'model' })
  if (transport === null) return { ranking, rank: lexicalRanker }
  if (dialect === undefined) throw new Problem('modality_not_supported', { param: 'model' })
  return { ranking, rank: serverRanker({ transport, dialect, timeoutMs }) }
}
