import { type Static, Type } from '@sinclair/typebox'
import { formed } from '../shapes.ts'

const patterns = Type.Array(
  formed('^[A-Za-z0-9*][A-Za-z0-9._:/@*-]*$', 'the id of a model, or its beginning and a *', {
    minLength: 1,
    maxLength: 129,
  }),
  {
    maxItems: 256,
  },
)
const privacyClass = Type.Union([Type.Literal('public'), Type.Literal('trusted'), Type.Literal('private')])
const positive = (maximum: number) => Type.Union([Type.Integer({ minimum: 1, maximum }), Type.Null()])

/**
 * What a key may do. Model patterns are exact or end in `*`, and a denial has precedence. `route_tiers` are node
 * classes; an empty list means all. A prompt leaves the owner's nodes only if key and account both set
 * `min_privacy_class` below `private`.
 */
const modelRules = {
  allowed_models: Type.Optional(Type.Union([patterns, Type.Null()])),
  denied_models: Type.Optional(patterns),
  route_tiers: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { maxItems: 32 })),
  min_privacy_class: Type.Optional(privacyClass),
  /** Prompts go to nodes marked `external` only when key and account both say so. */
  allow_external: Type.Optional(Type.Boolean()),
  /** Requests wake sleeping nodes of their owner (§39), unless key or account says no; default true. */
  allow_wake: Type.Optional(Type.Boolean()),
  max_tokens_per_request: Type.Optional(positive(1_048_576)),
  mixture: Type.Optional(
    Type.Object(
      { enabled: Type.Boolean(), max_experts: Type.Integer({ minimum: 1, maximum: 16 }) },
      { additionalProperties: false },
    ),
  ),
}

export const ModelPolicy = Type.Object(
  {
    ...modelRules,
    /** Of requests that wait for a slot, those with a higher one are served first; default 5. */
    priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 9 })),
    /** The key may only send sealed requests (§38). */
    sealed_only: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)
export type ModelPolicy = Static<typeof ModelPolicy>

/** `gateway_policy` of an account (§13); null or an absent field means the default. */
export const GatewayPolicy = Type.Object(
  {
    policy_version: Type.Optional(Type.Literal('gateway_policy_v1')),
    ...modelRules,
    node_scope: Type.Optional(
      Type.Union([Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { maxItems: 256 }), Type.Null()]),
    ),
    daily_token_quota: Type.Optional(positive(1_000_000_000_000)),
    rate_limit_rpm: Type.Optional(positive(1_000_000)),
    max_concurrency: Type.Optional(positive(100_000)),
  },
  { additionalProperties: false },
)
export type GatewayPolicy = Static<typeof GatewayPolicy>

/** Some fields of it: null takes one away. */
export const GatewayPolicyChanges = Type.Partial(
  Type.Mapped(Type.KeyOf(GatewayPolicy), (key) => Type.Union([Type.Index(GatewayPolicy, key), Type.Null()])),
  { additionalProperties: false },
)
export type GatewayPolicyChanges = { readonly [K in keyof GatewayPolicy]?: GatewayPolicy[K] | null }

export const ModelPolicyChanges = Type.Partial(
  Type.Mapped(Type.KeyOf(ModelPolicy), (key) => Type.Union([Type.Index(ModelPolicy, key), Type.Null()])),
  { additionalProperties: false },
)
export type ModelPolicyChanges = { readonly [K in keyof ModelPolicy]?: ModelPolicy[K] | null }

/** The policy as its account reads it (§27), with every default filled in. */
export const WholeGatewayPolicy = Type.Required(GatewayPolicy)
export type WholeGatewayPolicy = Static<typeof WholeGatewayPolicy>
