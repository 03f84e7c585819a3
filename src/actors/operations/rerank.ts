import { Problem } from '../../errors.ts'
import type { ServingRoute } from '../../machines/rules/routing.ts'
import { isErrorBody } from '../../protocol/chat/chunk-reader.ts'
import { textWeight, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { carriedRanking, firstUnlisted } from '../../protocol/dialects/members/unlisted.ts'
import { promptUsage } from '../../protocol/embeddings/embedding-list.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isObject, type Json } from '../../protocol/json/json-object.ts'
import {
  PooledRerankRequest,
  PooledRerankResponse,
  rerankByteFaults,
  rerankRoute,
  rerankTopN,
} from '../../protocol/wire/inference/rerank.ts'
import { rerankDialectOf } from '../../runtimes/registry.ts'
import { bestFirst, type DocumentScore, jinaDialect, readScores } from '../../runtimes/rerank.ts'
import type { Operation, WholeAnswer } from './operation.ts'
import { readRequestBody, refuseFields, refuseRouting } from './request-body.ts'

interface RerankAnswer extends WholeAnswer {
  /** In 0–1, one for each document. */
  readonly scores: readonly DocumentScore[]
}

const nothing = () => 0
const textOf = (document: PooledRerankRequest['documents'][number]) =>
  typeof document === 'string' ? document : document.text
const textsOf = ({ documents }: PooledRerankRequest): readonly string[] => documents.map(textOf)

function refuseLargeTexts(body: PooledRerankRequest): void {
  const [fault] = rerankByteFaults({ query: body.query, documents: [...textsOf(body)] })
  if (fault === undefined) return
  const param = fault.pointer?.slice(1).replaceAll('/', '.') ?? 'documents'
  throw new Problem('invalid_request', { param, detail: fault.detail })
}

/** Fields by which documents have several texts: which of them count no node would know. */
function refuseRankFields(body: PooledRerankRequest): void {
  const { rank_fields: fields } = body as { readonly rank_fields?: unknown }
  const text = Array.isArray(fields) && fields.length === 1 && fields[0] === 'text'
  if (fields === undefined || fields === null || text) return
  throw new Problem('invalid_request', { param: 'rank_fields', detail: 'rank_fields: documents have their text alone' })
}

/** Switches of servers that take their scores out of 0–1, in which all answers are. */
function refuseOtherScale(body: PooledRerankRequest): void {
  const why = 'scores are in 0–1 here'
  refuseFields(body, ['raw_scores'], why)
  for (const name of ['activation', 'use_activation']) {
    const value = (body as Json)[name]
    if (value != null && value !== true)
      throw new Problem('invalid_request', { param: name, detail: `${name}: ${why}` })
  }
}

/** Each document is read beside the query. Of the context each pair has all to itself. */
function estimate(body: PooledRerankRequest) {
  const texts = textsOf(body)
  const weight = texts.reduce((sum, text) => sum + textWeight(text), 0)
  return { tokens: wholeTokens(weight + texts.length * textWeight(body.query)), textTokens: 0 }
}

/** An agent speaks as endpoint 1 does, whatever server is behind it. */
const dialectOf = ({ agent, runtimeKind }: ServingRoute) =>
  agent === null ? (rerankDialectOf(runtimeKind) ?? jinaDialect) : jinaDialect

/** All scores are asked for: the choice among equal ones, and among those of several nodes, is made here. */
function upstream(body: PooledRerankRequest, route: ServingRoute): UpstreamBody {
  const { agent, runtimeId } = route
  const dialect = dialectOf(route)
  const asked = { query: body.query, documents: textsOf(body), more: carriedRanking(body) }
  const named = agent === null ? {} : { runtime_id: runtimeId }
  return {
    path: agent === null ? dialect.path : rerankRoute,
    stream: false,
    forModel: (model) => JSON.stringify({ ...dialect.body({ model, ...asked }), ...named }),
  }
}

function readAnswer(text: string, { documents }: PooledRerankRequest, route: ServingRoute): RerankAnswer | null {
  const said = foreignJson(text)
  if (isObject(said) && isErrorBody(said)) return null
  const { length: count } = documents
  const scoreKind = route.ranking?.scoreKind ?? 'probability'
  const scores = readScores(dialectOf(route), said, { count, atLeast: count, scoreKind })
  if (typeof scores === 'string') return null
  const usage = isObject(said) ? promptUsage(said.usage) : null
  return { choices: [], usage, cachedTokens: null, svc: undefined, outputWeight: nothing, scores }
}

/** Each part numbers its documents from 0. */
function join(answers: readonly WholeAnswer[]): RerankAnswer {
  let before = 0
  const scores = answers.flatMap((answer) => {
    const { scores: own } = answer as RerankAnswer
    const start = before
    before += own.length
    return own.map(({ index, score }) => ({ index: start + index, score }))
  })
  return { choices: [], usage: null, cachedTokens: null, svc: undefined, outputWeight: nothing, scores }
}

export const rerank: Operation<PooledRerankRequest> = {
  name: 'rerank',
  path: '/rerank',
  // The last is where Cohere's second client asks, which is given the gateway's address without a path.
  bases: ['/v1/api', '/v1', '/v2'],
  summary: 'Rank documents',
  description:
    'As Cohere and Jina have it: documents by their relevance to a query, best first, with scores in 0–1. Fields that no table of the gateway knows go to your own nodes alone.',
  schema: PooledRerankRequest,
  response: PooledRerankResponse,
  modality: 'rerank',
  byAgents: true,
  unvouched: true,
  receiptKind: 'hosted_rerank',
  envelope: 'openai',
  generates: false,
  idPrefix: 'rerank-',
  read(text) {
    const body = readRequestBody(text, PooledRerankRequest)
    refuseRouting(body, false)
    refuseLargeTexts(body)
    refuseRankFields(body)
    refuseFields(body, ['stream'], 'a ranking has no stream')
    refuseFields(body, ['max_tokens_per_doc', 'max_chunks_per_doc'], 'documents are ranked whole')
    refuseFields(body, ['texts'], 'here it is called documents')
    refuseOtherScale(body)
    return body
  },
  unlisted: (body) => firstUnlisted('rerank', body),
  estimate,
  tokensLeast: nothing,
  prompt: () => null,
  upstream: (_text, body, _ceiling, route) => upstream(body, route),
  readWhole: readAnswer,
  parts: {
    count: ({ documents }) => documents.length,
    unitsMax: ({ ranking }) => ranking?.documentsMax ?? Number.POSITIVE_INFINITY,
    cut: (body, from, to) => ({ ...body, documents: body.documents.slice(from, to) }),
    join,
  },
  writeWhole({ id, model }, answer, { usage, metadata }, body) {
    const texts = body.return_documents === true ? textsOf(body) : null
    const results = bestFirst((answer as RerankAnswer).scores, rerankTopN(body)).map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(texts === null ? {} : { document: { text: texts[index] } }),
    }))
    const { prompt_tokens, total_tokens } = usage
    return JSON.stringify({ id, model, results, usage: { prompt_tokens, total_tokens }, svc: metadata })
  },
}
