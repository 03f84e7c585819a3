import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals } from '../shapes.ts'

const role = literals(['admin', 'operator', 'viewer'])
const byRole = Type.Array(Type.Object({ role, count, failed_count: count, denied_count: count }))

/** Endpoint 19. All counts are of the newest events of the window, at most `sample_limit` of each table. */
export const AuditSummary = Type.Object({
  object: Type.Literal(`${brand}.admin.audit_summary`),
  generated_at: Instant,
  window_hours: count,
  window_start: Instant,
  sample_limit: count,
  access: Type.Object({
    count,
    truncated: Type.Boolean({ description: 'The window holds more than `sample_limit`' }),
    failed_count: count,
    denied_count: count,
    error_count: count,
    sensitive_count: count,
    by_role: byRole,
    by_path: Type.Array(
      Type.Object({
        method: Type.String(),
        path_template: Type.String(),
        count,
        failed_count: count,
        denied_count: count,
        last_seen_at: Instant,
      }),
    ),
    recent_sensitive_events: Type.Array(
      Type.Object({
        method: Type.String(),
        path_template: Type.String(),
        actor_role: role,
        status_code: Type.Integer(),
        outcome: Type.String(),
        category: Type.String(),
        created_at: Instant,
      }),
      { description: 'At most 20, newest first' },
    ),
  }),
  commands: Type.Object({
    count,
    truncated: Type.Boolean(),
    review_event_count: count,
    by_role: byRole,
    by_action: Type.Array(Type.Object({ action: Type.String(), count, last_seen_at: Instant })),
    recent_review_events: Type.Array(
      Type.Object({
        command_id: Type.String(),
        action: Type.String(),
        actor_role: role,
        reason_present: Type.Boolean(),
        category: Type.String(),
        created_at: Instant,
      }),
      { description: 'At most 20, newest first' },
    ),
  }),
  risk: Type.Object({
    status: literals(['clear', 'watch', 'review']),
    review_action_count: count,
    denied_access_count: count,
    error_access_count: count,
    review_actions: Type.Array(Type.String()),
  }),
})
export type AuditSummary = Static<typeof AuditSummary>
