import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { ModelWork } from '../nodes/served-work.ts'
import {
  count,
  etag,
  etagsCharactersMax,
  formed,
  Instant,
  literals,
  modelId,
  NullableInstant,
  nullable,
  nullableInteger,
  optionalText,
  reason,
  strict,
  wei,
} from '../shapes.ts'

const modality = literals(['text', 'image', 'file', 'audio'])
const modalities = Type.Optional(nullable(Type.Array(modality, { maxItems: 4 })))
const length = Type.Optional(nullable(Type.Integer({ minimum: 1, maximum: 100_000_000 })))
const usd = Type.Optional(formed('^[0-9]{1,9}(\\.[0-9]{1,18})?$', 'dollars as a decimal text, such as "0.000002"'))
const UsdPrices = Type.Object(
  { prompt: usd, completion: usd, image: usd, request: usd, input_cache_read: usd },
  { ...strict, description: 'USD per token, image or request' },
)

const sentEtag = Type.Optional(
  nullable(
    Type.String({
      maxLength: etagsCharactersMax,
      description: 'As `If-Match`, for a whole entry that is sent back as it was read',
    }),
  ),
)

/** The whole entry, or what changes of it. */
export const ModelPut = Type.Object(
  {
    id: modelId,
    aliases: Type.Optional(Type.Array(modelId, { maxItems: 64, uniqueItems: true })),
    name: optionalText(256),
    description: optionalText(4_096),
    input_modalities: modalities,
    output_modalities: modalities,
    serves: Type.Optional(nullable(ModelWork)),
    context_length: length,
    max_output_length: length,
    prompt_token_price_wei: Type.Optional(nullable(wei)),
    completion_token_price_wei: Type.Optional(nullable(wei)),
    usd_prices: Type.Optional(nullable(UsdPrices)),
    etag: sentEtag,
    reason,
  },
  strict,
)
export type ModelPut = Static<typeof ModelPut>
export const ModelDelete = Type.Object({ id: modelId, etag: sentEtag, reason }, strict)

const modelFields = {
  id: Type.String(),
  aliases: Type.Array(Type.String()),
  name: nullable(Type.String()),
  description: nullable(Type.String()),
  input_modalities: nullable(Type.Array(Type.String())),
  output_modalities: nullable(Type.Array(Type.String())),
  serves: nullable(ModelWork),
  context_length: nullableInteger,
  max_output_length: nullableInteger,
  prompt_token_price_wei: nullable(wei),
  completion_token_price_wei: nullable(wei),
  usd_prices: nullable(UsdPrices),
  updated_at: NullableInstant,
}
export const ModelEntry = Type.Object({ ...modelFields, etag })
export type ModelEntry = Static<typeof ModelEntry>
export const AdminModelList = Type.Object({
  object: Type.Literal(`${brand}.admin.model_list`),
  generated_at: Instant,
  count,
  models: Type.Array(
    Type.Object({
      ...modelFields,
      etag: nullable(Type.String({ description: 'Of the entry, for `If-Match`; null: there is none' })),
      in_catalogue: Type.Boolean({ description: 'false means that a node serves the model and no entry names it' }),
      nodes: Type.Integer({ description: 'Nodes that have the model' }),
      nodes_ready: Type.Integer({ description: 'Nodes that can answer for the model now' }),
      served_context_length: nullable(
        Type.Integer({
          description: 'The longest context that a node has for the model, but never more than the entry says',
        }),
      ),
    }),
  ),
})
export type AdminModelList = Static<typeof AdminModelList>
