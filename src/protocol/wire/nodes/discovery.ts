import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, literals, nullable, strict } from '../shapes.ts'
import { runtimeKinds } from './node.ts'

/** A look for model servers on the gateway's network (§39). */

const portsPerLookMax = 8
/** How many models of a server the answer names. */
export const discoveredModelsMax = 20

export const DiscoveryAsk = Type.Object(
  {
    range: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description: 'An IPv4 network of at most 1,024 addresses. Absent: the servers that announce themselves',
      }),
    ),
    ports: Type.Optional(
      Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), {
        minItems: 1,
        maxItems: portsPerLookMax,
        description: 'Default: the usual ports of model servers',
      }),
    ),
    public: Type.Optional(Type.Boolean({ description: 'Ask addresses of the internet, too' })),
  },
  strict,
)
export type DiscoveryAsk = Static<typeof DiscoveryAsk>

export const Discovered = Type.Object({
  object: Type.Literal(`${brand}.admin.node_discovery`),
  asked: Type.Unsafe<number>({ ...count, description: 'Addresses with a port that were asked' }),
  servers: Type.Array(
    Type.Object({
      url: Type.String(),
      runtime_kind: literals(runtimeKinds),
      models: Type.Array(Type.String(), { maxItems: discoveredModelsMax }),
      node_id: nullable(Type.String({ description: 'The node that is registered at this URL already' })),
    }),
  ),
})
export type Discovered = Static<typeof Discovered>
