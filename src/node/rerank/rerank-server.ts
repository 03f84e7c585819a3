import { Problem } from '../../errors.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import type { RerankDialect } from '../../runtimes/ranking.ts'
import { type DocumentScore, type RankingFault, readScores } from '../../runtimes/rerank.ts'
import { type NodeTransport, TransportError } from '../../transport/transport.ts'
import type { Ranker, RankJob } from './ranker.ts'

/** vLLM sends every document back: the largest request, escaped, and room to spare. */
const answerBytesMax = 32 * 1024 * 1024

export interface RankingServer {
  readonly transport: NodeTransport
  readonly dialect: RerankDialect
  /** For the whole ranking, ms. */
  readonly timeoutMs: number
}

/** Why a server gave no ranking: a code for the log, never the server's own text. */
export class RankingError extends Error {
  override readonly name = 'RankingError'
  constructor(readonly code: RankingFault | TransportError['failure'] | 'status' | 'not_json') {
    super(`ranking server: ${code}`)
  }
}

/** Ranks by a model server. Rejects with `upstream_error`, `upstream_timeout`, `runtime_unavailable`. */
export function serverRanker(server: RankingServer): Ranker {
  return async (job, signal) => {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), server.timeoutMs)
    try {
      return await rankInBatches(server, job, AbortSignal.any([signal, late.signal]))
    } catch (error) {
      signal.throwIfAborted()
      if (late.signal.aborted) throw new Problem('upstream_timeout', { detail: 'The runtime did not answer in time' })
      if (error instanceof TransportError) throw failed(new RankingError(error.failure))
      throw error instanceof RankingError ? failed(error) : error
    } finally {
      clearTimeout(timer)
    }
  }
}

const failed = (cause: RankingError) => new Problem('upstream_error', { detail: 'The runtime failed', cause })

/**
 * One request where the server takes that many documents, else one after the other: each document is scored by itself,
 * so the scores of batches compare.
 */
async function rankInBatches(
  server: RankingServer,
  job: RankJob,
  signal: AbortSignal,
): Promise<readonly DocumentScore[]> {
  const { documents, ranking } = job
  const size = ranking.documentsMax ?? documents.length
  const scores: DocumentScore[] = []
  for (let start = 0; start < documents.length; start += size) {
    const batch = documents.slice(start, start + size)
    const answer = await post(server, { ...job, documents: batch }, signal)
    const atLeast = Math.min(job.topN, batch.length)
    const read = readScores(server.dialect, answer, { count: batch.length, atLeast, scoreKind: ranking.scoreKind })
    if (typeof read === 'string') throw new RankingError(read)
    for (const { index, score } of read) scores.push({ index: start + index, score })
  }
  return scores
}

async function post({ transport, dialect }: RankingServer, job: RankJob, signal: AbortSignal): Promise<unknown> {
  const response = await transport.fetch(dialect.path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(dialect.body(job)),
    signal,
  })
  if (response.status !== 200) {
    response.discard()
    const busy = response.status === 429 || response.status === 503
    throw busy
      ? new Problem('runtime_unavailable', { detail: 'The runtime accepts no more work now' })
      : new RankingError('status')
  }
  const answer = foreignJson(await response.text(answerBytesMax))
  if (answer === undefined) throw new RankingError('not_json')
  return answer
}
