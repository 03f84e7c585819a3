import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { pageFields } from '../page.ts'
import { count, Instant, literals, NullableInstant, nullable, nullableInteger, reason, strict } from '../shapes.ts'
import { Actors } from './operators.ts'

const olderThanDaysMax = 3_650

/** Endpoint 21. */
/** What is typed to purge. */
export const purgeConfirmation = 'PURGE AUDIT EVENTS'
export const AuditPurgeRequest = Type.Object(
  {
    older_than_days: Type.Integer({
      minimum: 1,
      maximum: olderThanDaysMax,
      description: 'The purge removes events that are older than this many days',
    }),
    dry_run: Type.Optional(Type.Boolean({ description: 'Count the events and remove none' })),
    confirm: Type.Optional(
      Type.String({ maxLength: 64, description: 'Must be exactly `PURGE AUDIT EVENTS`, unless it is a dry run' }),
    ),
    reason,
  },
  strict,
)

export const AuditPurge = Type.Object({
  object: Type.Literal(`${brand}.admin.audit_retention_purge`),
  status: literals(['dry_run', 'purged']),
  retention_policy: Type.Literal('admin_audit_events_v1'),
  eligible_access_event_count: count,
  eligible_command_event_count: count,
  eligible_approval_event_count: count,
  eligible_total_event_count: count,
  purged_access_event_count: count,
  purged_command_event_count: count,
  purged_approval_event_count: count,
  purged_total_event_count: count,
  older_than_days: count,
  cutoff_created_before: Instant,
  purged_at: Instant,
})
export type AuditPurge = Static<typeof AuditPurge>

/** Rows that an admin has vouched for (§36). */
export const RowsNamed = Type.Object({
  object: Type.Literal(`${brand}.admin.rows_named`),
  named_count: count,
  all_named: Type.Boolean({ description: 'Every row has its event. False: there are more, call again' }),
})
export type RowsNamed = Static<typeof RowsNamed>

/** The chains of approval and command events, checked (§23). */
export const AuditChain = Type.Object({
  object: Type.Literal(`${brand}.admin.audit_chain`),
  generated_at: Instant,
  holds: Type.Boolean(),
  checked_event_count: count,
  writer_count: count,
  faults: Type.Array(
    Type.Object({
      kind: literals([
        'event_altered',
        'event_missing',
        'event_foreign',
        'head_altered',
        'tombstone_altered',
        'writer_missing',
        'key_unknown',
      ]),
      writer_id: nullable(Type.String()),
      at: nullableInteger,
    }),
    { description: 'At most 100' },
  ),
  heads: Type.Array(
    Type.Object({
      writer_id: Type.String(),
      ordinal: count,
      seq: count,
      mac: Type.String({ pattern: '^[0-9a-f]{64}$' }),
      key_id: Type.String(),
      last_event_at: Instant,
      purged_seq: nullable(Type.Integer({ description: 'The last event that a purge removed' })),
      purged_at: NullableInstant,
    }),
    { description: 'The newest writers come first. A copy of the heads shows later whether events were cut off.' },
  ),
})
export type AuditChain = Static<typeof AuditChain>

const role = literals(['admin', 'operator', 'viewer'])
const nullableText = nullable(Type.String())

const AccessEvent = Type.Object({
  event_id: Type.String(),
  actor_type: literals(['admin_token', 'unauthenticated', 'customer']),
  actor_role: role,
  actor_hash_prefix: nullableText,
  method: Type.String(),
  path_template: Type.String(),
  query_keys: Type.Array(Type.String()),
  status_code: Type.Integer(),
  outcome: literals(['success', 'denied', 'failed', 'error']),
  error_code: nullableText,
  user_agent_hash_prefix: nullableText,
  ip_hash_prefix: nullableText,
  created_at: Instant,
})
export type AccessEvent = Static<typeof AccessEvent>
/** Endpoint 16. */
export const AccessEventList = Type.Object({
  object: Type.Literal(`${brand}.admin.access_event_list`),
  generated_at: Instant,
  count,
  method: nullableText,
  path_template: nullableText,
  status_code: nullableInteger,
  actor_role: nullable(role),
  actor: nullable(Type.String({ description: 'Extension' })),
  ...pageFields,
  events: Type.Array(AccessEvent),
  actors: Actors,
})
export type AccessEventList = Static<typeof AccessEventList>

/** Redacted by construction: only these names are ever written. */
const metadata = Type.Object({
  amount_wei: Type.Optional(Type.String()),
  dry_run: Type.Optional(Type.Boolean()),
  older_than_days: Type.Optional(Type.Integer()),
  counts: Type.Optional(Type.Record(Type.String(), Type.Integer())),
  format: Type.Optional(literals(['json', 'csv'])),
  window_days: Type.Optional(Type.Integer()),
  result: Type.Optional(Type.String()),
  reason_missing: Type.Optional(Type.Boolean()),
  node_state: Type.Optional(Type.String()),
  model: Type.Optional(Type.String()),
  state: Type.Optional(
    Type.String({
      description: 'A hash of what the target was afterwards: a customer with its keys, or the catalogue',
    }),
  ),
  prices: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 2,
      maxItems: 2,
      description: 'Of a catalogue entry: wei for a token of a prompt and of an answer',
    }),
  ),
})

const ApprovalEvent = Type.Object({
  event_id: Type.String(),
  action: Type.String(),
  category: Type.String(),
  target_type: Type.String(),
  target_id: nullableText,
  actor_type: Type.String(),
  actor_role: role,
  approval_policy: Type.String(),
  reason: nullableText,
  confirmation: nullableText,
  metadata,
  created_at: Instant,
})
export type ApprovalEvent = Static<typeof ApprovalEvent>
/** Endpoint 17. */
export const ApprovalEventList = Type.Object({
  object: Type.Literal(`${brand}.admin.approval_event_list`),
  generated_at: Instant,
  count,
  action: nullableText,
  category: nullableText,
  target_type: nullableText,
  target_id: nullableText,
  actor_role: nullable(role),
  actor: nullable(Type.String({ description: 'Extension' })),
  ...pageFields,
  events: Type.Array(ApprovalEvent),
  actors: Actors,
})
export type ApprovalEventList = Static<typeof ApprovalEventList>

const CommandEvent = Type.Object({
  event_id: Type.String(),
  command_id: Type.String(),
  action: Type.String(),
  actor_type: Type.String(),
  actor_role: role,
  reason: nullableText,
  metadata,
  created_at: Instant,
})
export type CommandEvent = Static<typeof CommandEvent>
/** Endpoint 18. */
export const CommandEventList = Type.Object({
  object: Type.Literal(`${brand}.admin.command_event_list`),
  generated_at: Instant,
  count,
  command_id: nullableText,
  action: nullableText,
  actor_role: nullable(role),
  actor: nullable(Type.String({ description: 'Extension' })),
  ...pageFields,
  events: Type.Array(CommandEvent),
  actors: Actors,
})
export type CommandEventList = Static<typeof CommandEventList>
