import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { Instant, NullableInstant } from './report.ts'
import { count, literals, nullable, nullableInteger, reason, strict } from './shapes.ts'

export const olderThanDaysMax = 3_650

/** Endpoint 21. */
export const AuditPurgeRequest = Type.Object(
  {
    older_than_days: Type.Integer({
      minimum: 1,
      maximum: olderThanDaysMax,
      description: 'Events created before this many days ago are removed',
    }),
    dry_run: Type.Optional(Type.Boolean({ description: 'Only count' })),
    confirm: Type.Optional(
      Type.String({ maxLength: 64, description: 'Exactly `PURGE AUDIT EVENTS`, unless it is a dry run' }),
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

/** The chains of approval and command events, checked (decisions §23). */
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
    { description: 'Newest writers first. Kept elsewhere, they show later what was cut off' },
  ),
})
export type AuditChain = Static<typeof AuditChain>
