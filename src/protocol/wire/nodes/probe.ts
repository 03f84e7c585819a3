import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { literals, nullable, nullableInteger, serverKey, strict } from '../shapes.ts'
import { runtimeKinds } from './node.ts'

/** A look at a model server before it becomes a node (§23). */
export const NodeProbeAsk = Type.Object(
  {
    url: Type.String({ minLength: 1, maxLength: 2048, description: 'Base URL of an OpenAI-compatible server' }),
    api_key: Type.Optional(nullable(serverKey())),
  },
  strict,
)

/** How many models the answer names. */
export const probedModelsMax = 100

export const NodeProbe = Type.Object({
  object: Type.Literal(`${brand}.admin.node_probe`),
  url: Type.String({ description: 'As a node would have it' }),
  code: nullable(Type.String({ description: 'Why it cannot be used; null: it answers as a model server' })),
  says: Type.String({ description: 'The same in a sentence' }),
  node_id: nullable(Type.String({ description: 'The node that is registered at this URL already' })),
  runtime_kind: nullable(literals(runtimeKinds)),
  models: Type.Array(
    Type.Object({ id: Type.String(), context_length: nullableInteger, loaded: nullable(Type.Boolean()) }),
    { maxItems: probedModelsMax },
  ),
})
export type NodeProbe = Static<typeof NodeProbe>
