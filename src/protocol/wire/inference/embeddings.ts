import { type Static, Type } from '@sinclair/typebox'
import { checkOf, checksOf } from '../../dialects/fields.ts'
import { modelName } from '../../dialects/values.ts'
import { ChatMetadata, ChatRouting } from './chat.ts'

/** Of one request (§28). */
export const embeddingInputsMax = 2_048
/** Tokens of one input that was tokenized by the client. */
const inputTokensMax = 100_000

const token = Type.Integer({ minimum: 0 })

/** `POST /embeddings`. Other fields of the table pass through to the node, unknown ones to own nodes alone. */
export const EmbeddingsRequest = Type.Object(
  {
    model: modelName,
    input: Type.Union([
      Type.String({ minLength: 1 }),
      // A list is of one kind: texts, tokens of one text, or lists of tokens.
      Type.Array(
        Type.Union([
          Type.String({ minLength: 1 }),
          token,
          Type.Array(token, { minItems: 1, maxItems: inputTokensMax }),
        ]),
        { minItems: 1, maxItems: inputTokensMax },
      ),
    ]),
    encoding_format: Type.Optional(checkOf('embeddings', 'encoding_format')),
    dimensions: Type.Optional(checkOf('embeddings', 'dimensions')),
    ...checksOf('embeddings', 'models'),
    svc: Type.Optional(ChatRouting),
  },
  { additionalProperties: true },
)
export type EmbeddingsRequest = Static<typeof EmbeddingsRequest>

export const EmbeddingsResponse = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Type.Integer(),
      embedding: Type.Union([Type.Array(Type.Number()), Type.String({ description: 'base64 of 32-bit floats' })]),
    }),
  ),
  model: Type.String(),
  usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
  svc: ChatMetadata,
})
