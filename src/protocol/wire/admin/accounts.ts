import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { balanceFields } from '../balance.ts'
import { count, etag, Instant, id, literals, NullableInstant, nullable, reason, strict, text } from '../shapes.ts'
import { GatewayPolicy, GatewayPolicyChanges, ModelPolicy, ModelPolicyChanges } from './policy.ts'

const accountStatus = literals(['active', 'suspended', 'closed'])

export const CustomerCreate = Type.Object(
  { display_name: text(128), gateway_policy: Type.Optional(nullable(GatewayPolicy)), reason },
  strict,
)
export const CustomerUpdate = Type.Object(
  {
    display_name: Type.Optional(text(128)),
    account_status: Type.Optional(accountStatus),
    gateway_policy: Type.Optional(nullable(GatewayPolicy)),
    gateway_policy_changes: Type.Optional(GatewayPolicyChanges),
    reason,
  },
  strict,
)

const customerFields = {
  customer_id: Type.String(),
  display_name: Type.String(),
  account_status: accountStatus,
  gateway_policy: nullable(GatewayPolicy),
  ...balanceFields,
  created_at: Instant,
  etag,
}
export const Customer = Type.Object(customerFields)
export type Customer = Static<typeof Customer>
const shownOnce = (what: string) => Type.String({ description: `${what}. Only this answer shows it.` })
export const CustomerCreated = Type.Object({
  ...customerFields,
  customer_token: shownOnce('The customer token'),
  webhook_secret: shownOnce('The secret that signs webhooks'),
})
export const CustomerList = Type.Object({
  object: Type.Literal(`${brand}.admin.customer_list`),
  generated_at: Instant,
  count,
  customers: Type.Array(Customer),
})
export type CustomerList = Static<typeof CustomerList>
export const CustomerToken = Type.Object({
  customer_id: Type.String(),
  customer_token: shownOnce('The customer token'),
})
export const WebhookSecret = Type.Object({
  customer_id: Type.String(),
  webhook_secret: shownOnce('The secret that signs webhooks'),
})

const nodeScope = Type.Optional(nullable(Type.Array(id, { maxItems: 256, description: 'Node ids; null: all' })))

export const KeyCreate = Type.Object(
  {
    name: text(128),
    model_policy: Type.Optional(nullable(ModelPolicy)),
    node_scope: nodeScope,
    expires_at: Type.Optional(nullable(Instant)),
    reason,
  },
  strict,
)
export const KeyUpdate = Type.Object(
  {
    name: Type.Optional(text(128)),
    model_policy_changes: Type.Optional(ModelPolicyChanges),
    node_scope: nodeScope,
    expires_at: Type.Optional(nullable(Instant)),
    reason,
  },
  strict,
)

/** A change of a policy that is only looked at. */
export const PolicyPreviewAsk = Type.Object(
  {
    customer_id: id,
    key_id: Type.Optional(
      nullable(
        Type.Unsafe<string>({ ...id, description: 'A key of it; null: one that is not issued yet; absent: none' }),
      ),
    ),
    gateway_policy_changes: Type.Optional(GatewayPolicyChanges),
    model_policy_changes: Type.Optional(ModelPolicyChanges),
    node_scope: nodeScope,
  },
  strict,
)
export type PolicyPreviewAsk = Static<typeof PolicyPreviewAsk>
const PolicyReach = Type.Object({ models: count, nodes: count })
const modelsNamed = (what: string) =>
  Type.Array(Type.String(), { description: `Models that the change ${what}, at most 5 of them` })
export const PolicyPreview = Type.Object({
  object: Type.Literal(`${brand}.admin.policy_preview`),
  before: Type.Unsafe<Static<typeof PolicyReach> | null>({
    ...nullable(PolicyReach),
    description: 'What can be called now; null: the key is not issued yet',
  }),
  after: Type.Unsafe<Static<typeof PolicyReach>>({
    ...PolicyReach,
    description: 'What can be called after the change',
  }),
  lost: modelsNamed('takes away'),
  gained: modelsNamed('adds'),
})
export type PolicyPreview = Static<typeof PolicyPreview>
const sevenDaysSeconds = 604_800
export const KeyRotate = Type.Object(
  {
    keep_seconds: Type.Optional(
      Type.Integer({ minimum: 0, maximum: sevenDaysSeconds, description: 'How long the old key keeps working' }),
    ),
    reason,
  },
  strict,
)
const keyFields = {
  key_id: Type.String(),
  customer_id: Type.String(),
  display_prefix: Type.String({ description: 'The first 16 characters of the key' }),
  name: Type.String(),
  node_scope: nullable(Type.Array(Type.String())),
  model_policy: nullable(ModelPolicy),
  created_at: Instant,
  last_used_at: nullable(Instant),
  expires_at: NullableInstant,
  revoked_at: NullableInstant,
  etag,
}
export const Key = Type.Object(keyFields)
export type Key = Static<typeof Key>
export const KeyIssued = Type.Object({ ...keyFields, gateway_key: shownOnce('The key itself') })
export const KeyRotated = Type.Object({
  ...keyFields,
  gateway_key: shownOnce('The new key itself'),
  old_key_expires_at: Instant,
})
export const KeyList = Type.Object({
  object: Type.Literal(`${brand}.admin.key_list`),
  generated_at: Instant,
  count,
  keys: Type.Array(Key),
})
export type KeyList = Static<typeof KeyList>
