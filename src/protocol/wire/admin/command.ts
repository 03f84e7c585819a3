import { type Static, Type } from '@sinclair/typebox'
import { EnvelopeBody } from '../inference/job.ts'
import { NodeReceipt } from '../nodes/agent.ts'
import { formed, literals, nullable, strict } from '../shapes.ts'

/** The command routes of a node agent (§22): `PUT`, `GET ?wait_s=` and `DELETE /svc/v1/commands/{command_id}`. */

export const attemptsMax = 3
/** What a node may report; a retryable one raises the attempt. */
export const retryableFailures = ['runtime_error', 'model_unavailable'] as const
export const finalFailures = [
  'decrypt_failed',
  'invalid_payload',
  'mixture_unsupported_path',
  'envelope_replayed',
  'result_too_large',
] as const
export type NodeFailure = (typeof retryableFailures)[number] | (typeof finalFailures)[number]

/** `PUT`: answered 202. The same id and attempt again changes nothing; a higher attempt restarts a failed command. */
export const CommandSubmit = Type.Object(
  {
    attempt: Type.Integer({ minimum: 1, maximum: attemptsMax }),
    request_id: formed('^req_[0-9A-Z]{26}$', 'the id of a request: req_ and 26 digits or capital letters', {
      description: 'The request id of this attempt, for the receipt',
    }),
    job_id: Type.String({ maxLength: 64, description: 'For the receipt' }),
    sealed_job_id: Type.String({ maxLength: 64, description: 'As in the AAD. Empty if the customer sent none.' }),
    node_id: Type.String({ maxLength: 64 }),
    model_id: Type.String({ maxLength: 128, description: 'As in the AAD' }),
    upstream_model_id: Type.String({ maxLength: 128, description: 'The model id that the runtime uses' }),
    runtime_id: Type.String({ maxLength: 64 }),
    deadline_at: Type.String({ description: 'The gateway does not take a result after this time' }),
    encrypted_request: EnvelopeBody,
  },
  strict,
)
export type CommandSubmit = Static<typeof CommandSubmit>

const base = { command_id: Type.String(), attempt: Type.Integer({ minimum: 1, maximum: attemptsMax }) }

/** `GET`: 200, also where nothing is known after `wait_s`; 404 `command_not_found` where the agent has lost it. */
export const CommandState = Type.Union([
  Type.Object({ ...base, status: literals(['running']) }),
  Type.Object({
    ...base,
    status: literals(['completed']),
    encrypted_response: EnvelopeBody,
    receipt: NodeReceipt,
  }),
  Type.Object({ ...base, status: literals(['failed']), error: Type.Object({ code: Type.String({ maxLength: 64 }) }) }),
  Type.Object({ ...base, status: literals(['cancelled']), error: Type.Optional(nullable(Type.Object({}))) }),
])
export type CommandState = Static<typeof CommandState>

/** Longest `wait_s`, and how long a gateway waits for the answer to it beyond. */
export const commandWaitSecondsMax = 25
