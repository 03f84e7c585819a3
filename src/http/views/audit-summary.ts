import type {
  AccessGroup,
  CommandGroup,
  RecentAccess,
  RecentCommand,
  Sample,
} from '../../db/queries/audit/audit-summary.ts'
import { type AuditRisk, type CommandFacts, type RiskThresholds, riskStatus } from '../../machines/rules/audit-risk.ts'
import type { AuditSummary } from '../../protocol/wire/admin/audit-summary.ts'
import { isoTime } from '../../time.ts'

/** Of the recent events that a summary shows (§16). */
export const recentMax = 20

type AccessPart = AuditSummary['access']
type CommandPart = AuditSummary['commands']
type Counted = Pick<AccessGroup, 'count'> & { readonly outcome?: AccessGroup['outcome'] }

const sum = (groups: readonly Counted[]) => groups.reduce((total, { count }) => total + count, 0)
const sumOf = (groups: readonly Counted[], wanted: AccessGroup['outcome']) =>
  sum(groups.filter(({ outcome }) => outcome === wanted))
const counts = (groups: readonly Counted[]) => ({
  count: sum(groups),
  failed_count: sumOf(groups, 'failed'),
  denied_count: sumOf(groups, 'denied'),
})

const lastSeen = (groups: readonly { readonly lastSeenAt: Date }[]) =>
  isoTime(new Date(Math.max(...groups.map(({ lastSeenAt }) => lastSeenAt.getTime()))))

function byRole(groups: readonly (Counted & Pick<AccessGroup, 'actorRole'>)[]): AccessPart['by_role'] {
  const roles = (['admin', 'operator', 'viewer'] as const).map((role) => ({
    role,
    ...counts(groups.filter(({ actorRole }) => actorRole === role)),
  }))
  return roles.filter(({ count }) => count > 0)
}

/** Most first; the key decides between equals. */
function ranked<G extends Counted>(groups: readonly G[], key: (group: G) => string): readonly (readonly G[])[] {
  const alike = [...Map.groupBy(groups, key)]
  return alike
    .toSorted(([keyA, a], [keyB, b]) => sum(b) - sum(a) || (keyA < keyB ? -1 : 1))
    .map(([, members]) => members)
}

export function accessPart(
  risk: AuditRisk,
  { truncated, groups, recent }: Sample<AccessGroup, RecentAccess>,
): AccessPart {
  const places = ranked(groups, ({ method, pathTemplate }) => `${pathTemplate} ${method}`)
  return {
    ...counts(groups),
    truncated,
    error_count: sumOf(groups, 'error'),
    sensitive_count: sum(groups.filter((group) => risk.sensitiveCategory(group) !== null)),
    by_role: byRole(groups),
    by_path: places.map((alike) => ({
      method: alike[0]?.method ?? '',
      path_template: alike[0]?.pathTemplate ?? '',
      ...counts(alike),
      last_seen_at: lastSeen(alike),
    })),
    recent_sensitive_events: recent.map((event) => ({
      method: event.method,
      path_template: event.pathTemplate,
      actor_role: event.actorRole,
      status_code: event.statusCode,
      outcome: event.outcome,
      category: risk.sensitiveCategory(event) ?? '',
      created_at: isoTime(event.createdAt),
    })),
  }
}

export function commandPart(
  risk: AuditRisk,
  { truncated, groups, recent }: Sample<CommandGroup, RecentCommand>,
): CommandPart {
  const needsReview = (facts: CommandFacts) => risk.needsReview(facts)
  return {
    count: sum(groups),
    truncated,
    review_event_count: sum(groups.filter(needsReview)),
    // What was refused or failed has no event, and these two counts are always 0.
    by_role: byRole(groups),
    by_action: ranked(groups, ({ action }) => action).map((alike) => ({
      action: alike[0]?.action ?? '',
      count: sum(alike),
      last_seen_at: lastSeen(alike),
    })),
    recent_review_events: recent
      .filter(needsReview)
      .slice(0, recentMax)
      .map((event) => ({
        command_id: event.commandId,
        action: event.action,
        actor_role: event.actorRole,
        reason_present: event.reasonPresent,
        category: risk.commandCategory(event.action),
        created_at: isoTime(event.createdAt),
      })),
  }
}

export function riskPart(
  risk: AuditRisk,
  access: AccessPart,
  commands: CommandPart,
  groups: readonly CommandGroup[],
  thresholds: RiskThresholds,
): AuditSummary['risk'] {
  const reviewActions = [
    ...new Set(groups.filter((group) => risk.needsReview(group)).map(({ action }) => action)),
  ].sort()
  const facts = {
    reviewActions: reviewActions.length,
    denied: access.denied_count,
    errors: access.error_count,
    truncated: access.truncated || commands.truncated,
  }
  return {
    status: riskStatus(facts, thresholds),
    review_action_count: reviewActions.length,
    denied_access_count: access.denied_count,
    error_access_count: access.error_count,
    review_actions: reviewActions,
  }
}
