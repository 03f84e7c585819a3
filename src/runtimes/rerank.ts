import type { Modality } from '../protocol/wire/nodes/kinds-of-work.ts'
import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import { fieldsOf } from './answers.ts'
import type { RankingTraits, RerankDialect, ScoreKind } from './ranking.ts'
import type { RuntimeModel, RuntimeStatus } from './runtime.ts'

export interface DocumentScore {
  /** Of the document in the call. */
  readonly index: number
  readonly score: number
}

const entriesOf = (list: unknown, scoreField: string) =>
  Array.isArray(list)
    ? list.map((entry) => ({ index: fieldsOf(entry).index, score: fieldsOf(entry)[scoreField] }))
    : null

/**
 * What Jina began, and llama.cpp, vLLM and most others speak. All documents are asked for, so that the choice among equal
 * scores is ours.
 */
export const jinaDialect: RerankDialect = {
  path: '/v1/rerank',
  body: ({ model, query, documents, more }) => ({ ...more, model, query, documents, top_n: documents.length }),
  scores: (answer) => entriesOf(fieldsOf(answer).results, 'relevance_score'),
}

/** SGLang takes what Jina does and answers as Text Embeddings Inference does. */
export const sglangDialect: RerankDialect = {
  path: '/v1/rerank',
  body: ({ model, query, documents, more }) => ({ ...more, model, query, documents, return_documents: false }),
  scores: (answer) => entriesOf(answer, 'score'),
}

/** Text Embeddings Inference. Without `truncate`, which the client may say otherwise, one long document would fail the whole request. */
export const teiDialect: RerankDialect = {
  path: '/rerank',
  body: ({ query, documents, more }) => ({ truncate: true, ...more, query, texts: documents }),
  scores: (answer) => entriesOf(answer, 'score'),
}

/** Of a model that has its work from a sign that says no more; a ranker needs to be known as one. */
export function servedAs(model: RuntimeModel, modality: Modality | null, scoreKind: ScoreKind): RuntimeModel {
  if (modality === 'rerank') return ranks(model, { scoreKind, documentsMax: null })
  return modality === null || modality === 'chat' ? model : { ...model, modality }
}

/** Of a model of which only its name says something, or nothing does. */
export function guessedFrom(name: Modality | null, model: RuntimeModel, scoreKind: ScoreKind): RuntimeModel {
  return { ...servedAs(model, name, scoreKind), workGuessed: true }
}

/** Of a model of which the server says what it does. */
export function withoutGuess({ modality: _, ranking: __, workGuessed: ___, ...model }: RuntimeModel): RuntimeModel {
  return model
}

export function ranks(model: RuntimeModel, ranking: RankingTraits): RuntimeModel {
  return { ...model, modality: 'rerank', ranking }
}

/**
 * How a server of this kind ranks, where only an operator or an answer says that its model does. llama.cpp gives the
 * unbounded output of the model's last layer; for Qwen3's two classes it applies the softmax itself, as others always do.
 */
export function usualRanking(kind: RuntimeKind, modelId: string): RankingTraits {
  return { scoreKind: kind === 'llama.cpp' && !/qwen3/i.test(modelId) ? 'logit' : 'probability', documentsMax: null }
}

/** The status of a server of which the operator says that all its models rank; `scoreKind` null: the usual of its kind. */
export function declaredRanker(status: RuntimeStatus, scoreKind: ScoreKind | null): RuntimeStatus {
  const declared = (model: RuntimeModel) => {
    const { scoreKind: usual, documentsMax } = model.ranking ?? usualRanking(status.kind, model.id)
    return ranks(model, { scoreKind: scoreKind ?? usual, documentsMax })
  }
  return { ...status, models: status.models.map(declared) }
}

/** Single precision may push a probability this far over 0 or 1, which then counts as 0 or 1. */
const edge = 1e-4

function inUnit(score: number, kind: ScoreKind): number | null {
  if (kind === 'logit') return 1 / (1 + Math.exp(-score))
  return score < -edge || score > 1 + edge ? null : Math.min(1, Math.max(0, score))
}

/** Why a server's answer is not a valid ranking of the request. */
export type RankingFault = 'shape' | 'index' | 'score' | 'score_range' | 'too_few'

/**
 * The scores of an answer to `count` documents in 0–1, in the answer's order: each index at most once and in range, each
 * score finite, at least `atLeast` of them.
 */
export function readScores(
  dialect: RerankDialect,
  answer: unknown,
  wanted: { readonly count: number; readonly atLeast: number; readonly scoreKind: ScoreKind },
): readonly DocumentScore[] | RankingFault {
  const entries = dialect.scores(answer)
  if (entries === null) return 'shape'
  const scores = new Map<number, number>()
  for (const { index, score } of entries) {
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= wanted.count) return 'index'
    if (scores.has(index)) return 'index'
    if (typeof score !== 'number' || !Number.isFinite(score)) return 'score'
    const unit = inUnit(score, wanted.scoreKind)
    if (unit === null) return 'score_range'
    scores.set(index, unit)
  }
  if (scores.size < wanted.atLeast) return 'too_few'
  return Array.from(scores, ([index, score]) => ({ index, score }))
}

/** Best first; of equal scores the lower index first. */
export function bestFirst(scores: readonly DocumentScore[], topN: number): readonly DocumentScore[] {
  return scores.toSorted((a, b) => b.score - a.score || a.index - b.index).slice(0, topN)
}
