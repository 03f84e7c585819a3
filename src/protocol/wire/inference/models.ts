import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'

/** Endpoint 3 of the specification. */
export const ModelList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      id: Type.String(),
      object: Type.Literal('model'),
      created: Type.Integer({ description: 'Unix seconds of the last measured call, or 0 if there was none' }),
      owned_by: Type.Literal(brand),
    }),
  ),
})
export type ModelList = Static<typeof ModelList>
