import { adminRoutes } from '../../actions/registry.ts'
import { brand } from '../../brand.ts'
import { sampleAccess, sampleCommands } from '../../db/queries/audit/audit-summary.ts'
import { AuditRisk } from '../../machines/rules/audit-risk.ts'
import { AuditSummary } from '../../protocol/wire/admin/audit-summary.ts'
import { limitOf, whole } from '../../protocol/wire/query.ts'
import { hourMs, isoTime } from '../../time.ts'
import { accessPart, commandPart, recentMax, riskPart } from '../views/audit-summary.ts'
import { report } from './report.ts'

const audited = new AuditRisk(Object.values(adminRoutes))
const windowHours = whole(1, 720, 24, 'How many hours back the answer reaches')

/** Endpoint 19. */
export const auditSummary = report({
  action: 'audit.summary.read',
  tag: 'Audit',
  summary: 'Summarise the audit',
  description: 'Counts the newest events of the window: at most `limit` calls and `limit` commands.',
  query: { window_hours: windowHours, limit: limitOf(1_000, 10_000) },
  response: AuditSummary,
  read: async ({ gateway: { db, config } }, { query: { window_hours, limit }, nowMs }) => {
    const since = new Date(nowMs - window_hours * hourMs)
    const input = { since, limit, recentMax }
    const [calls, commandCounts] = await Promise.all([
      sampleAccess(db, input, audited.sensitivePlaces),
      sampleCommands(db, input),
    ])
    const access = accessPart(audited, calls)
    const commands = commandPart(audited, commandCounts)
    const thresholds = {
      watchDenied: config.SVC_AUDIT_WATCH_DENIED,
      reviewDenied: config.SVC_AUDIT_REVIEW_DENIED,
      watchErrors: config.SVC_AUDIT_WATCH_ERRORS,
      reviewErrors: config.SVC_AUDIT_REVIEW_ERRORS,
    }
    return {
      object: `${brand}.admin.audit_summary` as const,
      generated_at: isoTime(nowMs),
      window_hours,
      window_start: isoTime(since),
      sample_limit: limit,
      access,
      commands,
      risk: riskPart(audited, access, commands, commandCounts.groups, thresholds),
    }
  },
})
