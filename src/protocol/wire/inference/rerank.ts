import { type Static, Type } from '@sinclair/typebox'
import { inDigits } from '../../../amounts.ts'
import type { FieldFault } from '../../../errors.ts'
import { checkOf, checksOf } from '../../dialects/fields.ts'
import { modelName } from '../../dialects/values.ts'
import { ChatMetadata, ChatRouting } from './chat.ts'

/** Endpoint 1 (§12). Cohere's and Jina's further members are ignored; what is unknown goes to the server that ranks. */

export const rerankRoute = '/v1/rerank'
export const rerankBodyBytesMax = 8 * 1024 * 1024
const rerankDocumentsMax = 1_000
const rerankDocumentBytesMax = 64 * 1024
const rerankQueryBytesMax = 32 * 1024

export const RerankRequest = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 128, description: 'A model id of the model list' }),
  query: Type.String({ minLength: 1, maxLength: rerankQueryBytesMax, description: 'At most 32 KiB of UTF-8' }),
  documents: Type.Array(Type.String({ maxLength: rerankDocumentBytesMax, description: 'At most 64 KiB of UTF-8' }), {
    minItems: 1,
    maxItems: rerankDocumentsMax,
  }),
  top_n: Type.Optional(checkOf('rerank', 'top_n')),
  runtime_id: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
})
export type RerankRequest = Static<typeof RerankRequest>

const RerankResult = Type.Object({
  index: Type.Integer({ minimum: 0, description: 'The index of the document in the request' }),
  relevance_score: Type.Number({ minimum: 0, maximum: 1 }),
})
export type RerankResult = Static<typeof RerankResult>

/** Best first; of equal scores the lower index first. Never a document's text. */
export const RerankResponse = Type.Object({ results: Type.Array(RerankResult) })
export type RerankResponse = Static<typeof RerankResponse>

/** As a document comes with a name for its text, in Cohere's shape and in Jina's. */
const NamedDocument = Type.Object({ text: Type.String({ maxLength: rerankDocumentBytesMax }) })

/** `POST /rerank` of the gateway (§28). */
export const PooledRerankRequest = Type.Object(
  {
    model: modelName,
    query: RerankRequest.properties.query,
    documents: Type.Array(Type.Union([RerankRequest.properties.documents.items, NamedDocument]), {
      minItems: 1,
      maxItems: rerankDocumentsMax,
    }),
    ...checksOf('rerank', 'top_n', 'return_documents', 'models'),
    svc: Type.Optional(ChatRouting),
  },
  { additionalProperties: true },
)
export type PooledRerankRequest = Static<typeof PooledRerankRequest>

/** Best first; of equal scores the lower index first. */
export const PooledRerankResponse = Type.Object({
  id: Type.String(),
  model: Type.String(),
  results: Type.Array(
    Type.Composite([
      RerankResult,
      Type.Object({
        document: Type.Optional(Type.Object({ text: Type.String() }, { description: 'With `return_documents`' })),
      }),
    ]),
  ),
  usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
  svc: ChatMetadata,
})

const bytesOf = (text: string) => Buffer.byteLength(text)

/** The bounds in bytes that a schema cannot say, as the faults of `invalid_request`. */
export function rerankByteFaults({
  query,
  documents,
}: Pick<RerankRequest, 'query' | 'documents'>): readonly FieldFault[] {
  const fault = (pointer: string, field: string, text: string, bytesMax: number) => ({
    pointer,
    code: 'invalid',
    detail: `${field} may have at most ${inDigits(bytesMax)} bytes of UTF-8; you sent ${inDigits(bytesOf(text))}.`,
  })
  if (bytesOf(query) > rerankQueryBytesMax) return [fault('/query', 'query', query, rerankQueryBytesMax)]
  const at = documents.findIndex((document) => bytesOf(document) > rerankDocumentBytesMax)
  if (at === -1) return []
  return [fault(`/documents/${at}`, `documents[${at}]`, documents[at] ?? '', rerankDocumentBytesMax)]
}

/** How many results a request asks for. */
export function rerankTopN({
  top_n: topN,
  documents,
}: {
  top_n?: number | null
  documents: readonly unknown[]
}): number {
  return Math.min(topN ?? documents.length, documents.length)
}
