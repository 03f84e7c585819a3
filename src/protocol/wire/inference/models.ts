import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { Modality } from '../nodes/served-work.ts'
import { nullable, nullableInteger, wei } from '../shapes.ts'

const modelMembers = {
  id: Type.String(),
  object: Type.Literal('model'),
  created: Type.Integer({ description: 'When this gateway first knew the model, Unix seconds. It never changes' }),
  owned_by: Type.Literal(brand),
}

/** Endpoint 3 of the specification. */
export const ModelList = Type.Object({ object: Type.Literal('list'), data: Type.Array(Type.Object(modelMembers)) })
export type ModelList = Static<typeof ModelList>

/** Below `/v1`, where no specification counts the members. */
export const Model = Type.Object({
  ...modelMembers,
  svc: Type.Object({
    modality: Modality,
    serves: Type.Array(Modality, { description: 'All kinds of work that it does, `modality` first' }),
    context_length: nullableInteger,
    loaded: nullable(Type.Boolean({ description: 'In the memory of at least one node; null: no node says' })),
    own: Type.Boolean({
      description: 'True if a node of the caller’s own account serves it. Own nodes come first, and are free',
    }),
    price: nullable(
      Type.Object(
        { prompt_token_price_wei: wei, completion_token_price_wei: wei },
        { description: 'What a call costs on a node of somebody else; null: nothing' },
      ),
    ),
  }),
})
export type Model = Static<typeof Model>

export const DescribedModelList = Type.Object({ object: Type.Literal('list'), data: Type.Array(Model) })
export type DescribedModelList = Static<typeof DescribedModelList>

/** What Anthropic's clients ask for. */
export const AnthropicModel = Type.Object({
  type: Type.Literal('model'),
  id: Type.String(),
  display_name: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
})
export type AnthropicModel = Static<typeof AnthropicModel>

export const AnthropicModelList = Type.Object({
  data: Type.Array(AnthropicModel),
  has_more: Type.Boolean(),
  first_id: nullable(Type.String()),
  last_id: nullable(Type.String()),
})
export type AnthropicModelList = Static<typeof AnthropicModelList>
