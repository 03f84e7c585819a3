import { type Static, Type } from '@sinclair/typebox'
import { adminObject } from '../../../brand.ts'
import { TransportKey } from '../nodes/agent.ts'
import { chosenId, Instant, id, literals, modelId, NullableInstant, nullable, strict, wei } from '../shapes.ts'

/** `status` of a private job; the resting states of its chart (§10). */
export const jobStatuses = ['queued', 'dispatched', 'running', 'completed', 'failed', 'expired', 'cancelled'] as const
export type JobStatus = (typeof jobStatuses)[number]
export const terminalJobStatuses = ['completed', 'failed', 'expired', 'cancelled'] as const
export type TerminalJobStatus = (typeof terminalJobStatuses)[number]

/** `status` of a webhook; null until its job has ended (§11). */
export const webhookStatuses = ['pending', 'delivering', 'retry_scheduled', 'delivered', 'failed', 'disabled'] as const
export type WebhookStatus = (typeof webhookStatuses)[number]

export const webhookUrlCharactersMax = 2_048
/** Longer than any valid text; what is wrong inside is said by `envelope_invalid`. */
const envelopeTextMax = 256
const ciphertextTextMax = 9 * 1024 * 1024
const envelopeText = Type.String({ maxLength: envelopeTextMax })

export const EnvelopeBody = Type.Object(
  {
    version: envelopeText,
    key_id: envelopeText,
    algorithm: envelopeText,
    client_public_key_x25519: Type.String({ maxLength: envelopeTextMax, description: 'base64url, 32 bytes' }),
    nonce: Type.String({ maxLength: envelopeTextMax, description: 'base64url, 12 bytes' }),
    ciphertext: Type.String({ maxLength: ciphertextTextMax, description: 'base64url, 16 bytes to 6 MiB' }),
    aad_hash: Type.Optional(Type.String({ maxLength: envelopeTextMax, description: 'Hex SHA-256 of the AAD' })),
  },
  strict,
)

/** Endpoint 6. Strict: the customer could rely on a field that the gateway would ignore. */
export const JobCreate = Type.Object(
  {
    job_id: Type.Optional(chosenId()),
    node_id: id,
    model_id: modelId,
    // Its own code says what is wrong with it.
    webhook_url: Type.Optional(Type.String({ description: 'https' })),
    encrypted_request: EnvelopeBody,
  },
  strict,
)
export type JobCreate = Static<typeof JobCreate>

export const JobCreated = Type.Object({
  status: Type.Literal('queued'),
  job_id: Type.String(),
  node_id: Type.String(),
  command_id: Type.String(),
  billing: Type.Null({ description: 'Work on your own nodes is free' }),
  webhook_url: Type.Optional(Type.String({ format: 'uri' })),
  created_at: Instant,
})
export type JobCreated = Static<typeof JobCreated>

export const WebhookRecord = Type.Object({
  url: Type.String({ format: 'uri' }),
  status: nullable(literals(webhookStatuses)),
  attempts: Type.Integer(),
  last_error: nullable(Type.String()),
  next_attempt_at: NullableInstant,
  last_attempt_at: NullableInstant,
  delivered_at: NullableInstant,
})
export type WebhookRecord = Static<typeof WebhookRecord>

const MeteringRecord = Type.Object({
  customer_id: Type.String(),
  policy_version: Type.String(),
  quoted_price_wei: wei,
  reserved_price_wei: wei,
  payout_price_wei: wei,
  status: Type.String(),
})

const error = Type.Object(
  { code: Type.String() },
  { description: 'An extension of the specification: why the job failed' },
)

/** Endpoint 7. */
export const JobRead = Type.Object({
  job_id: Type.String(),
  node_id: Type.String(),
  model_id: Type.String(),
  status: literals(jobStatuses),
  encrypted_request: EnvelopeBody,
  encrypted_response: Type.Optional(EnvelopeBody),
  receipt_hash: Type.Optional(Type.String()),
  billing: nullable(MeteringRecord),
  webhook: nullable(WebhookRecord),
  created_at: Instant,
  completed_at: Type.Optional(Instant),
  error: Type.Optional(error),
})
export type JobRead = Static<typeof JobRead>

/** Extension: the signed keys of one own node (§10). */
export const NodeKeys = Type.Object({
  node_id: Type.String(),
  identity_public_key_ed25519: Type.String({
    description: 'Compare its fingerprint with the one that the node prints',
  }),
  keys: Type.Array(TransportKey),
})
export type NodeKeys = Static<typeof NodeKeys>

/** Bodies of webhooks (§11). */
export interface WebhookEvent {
  readonly type: `private_job.${TerminalJobStatus}`
  readonly timestamp: string
  readonly data: {
    readonly customer_id: string
    readonly job_id: string
    readonly node_id: string
    readonly model_id: string
    readonly status: TerminalJobStatus
    readonly receipt_hash: string | null
    readonly created_at: string
    readonly completed_at: string
  }
}

/** `GET /.well-known/webhook-keys.json`. */
export const WebhookKeys = Type.Object({
  keys: Type.Array(Type.String({ description: '`whpk_` and the base64 of an Ed25519 public key; newest first' })),
})

export const CommandRecord = Type.Object({
  command_id: Type.String(),
  job_id: Type.String(),
  customer_id: Type.Optional(Type.String({ description: 'Only for the roles operator and admin' })),
  node_id: Type.String(),
  model_id: Type.String(),
  status: literals(jobStatuses),
  attempt: Type.Integer(),
  error_code: nullable(Type.String()),
  receipt_hash: nullable(Type.String()),
  created_at: Instant,
  deadline_at: Instant,
  completed_at: NullableInstant,
})
export type CommandRecord = Static<typeof CommandRecord>

export const JobList = Type.Object({
  object: Type.Literal(`${adminObject}job_list` as const),
  generated_at: Instant,
  count: Type.Integer(),
  jobs: Type.Array(CommandRecord),
})
export type JobList = Static<typeof JobList>

export const WebhookDelivery = Type.Object({
  webhook_id: Type.String(),
  command_id: Type.String(),
  job_id: Type.String(),
  customer_id: Type.Optional(Type.String({ description: 'Only for the roles operator and admin' })),
  status: nullable(literals(webhookStatuses)),
  attempts: Type.Integer(),
  last_error: nullable(Type.String()),
  next_attempt_at: NullableInstant,
  last_attempt_at: NullableInstant,
  delivered_at: NullableInstant,
  created_at: Instant,
})
export type WebhookDelivery = Static<typeof WebhookDelivery>

export const WebhookList = Type.Object({
  object: Type.Literal(`${adminObject}webhook_list` as const),
  generated_at: Instant,
  count: Type.Integer(),
  webhooks: Type.Array(WebhookDelivery),
})
export type WebhookList = Static<typeof WebhookList>
