import { expect, test } from 'bun:test'
import { adminRoutes } from '../../../src/actions/registry.ts'
import { AuditRisk, type RiskFacts, riskStatus } from '../../../src/machines/rules/audit-risk.ts'
import { type WorkflowFacts, workflowBlockers, workflowStatus } from '../../../src/machines/rules/workflow-status.ts'

const risk = new AuditRisk(Object.values(adminRoutes))
const thresholds = { watchDenied: 5, reviewDenied: 20, watchErrors: 5, reviewErrors: 20 }
const quiet: RiskFacts = { reviewActions: 0, denied: 0, errors: 0, truncated: false }

test('§16: clear, watch and review at the edges of their thresholds', () => {
  const cases: readonly (readonly [Partial<RiskFacts>, string])[] = [
    [{}, 'clear'],
    [{ denied: 4, errors: 4 }, 'clear'],
    [{ denied: 5 }, 'watch'],
    [{ errors: 5 }, 'watch'],
    [{ truncated: true }, 'watch'],
    [{ denied: 19, errors: 19, truncated: true }, 'watch'],
    [{ denied: 20 }, 'review'],
    [{ errors: 20 }, 'review'],
    [{ reviewActions: 1 }, 'review'],
  ]
  for (const [facts, status] of cases) {
    expect<unknown>([facts, riskStatus({ ...quiet, ...facts }, thresholds)]).toEqual([facts, status])
  }
})

test('§16: sensitive are billing, retention and data_export, and nothing else', () => {
  for (const { method, path, category } of Object.values(adminRoutes)) {
    const place = { method, pathTemplate: path }
    const sensitive = ['billing', 'retention', 'data_export'].includes(category)
    expect([path, risk.sensitiveCategory(place)]).toEqual([path, sensitive ? category : null])
    expect(risk.sensitivePlaces.some((each) => each.method === method && each.pathTemplate === path)).toBe(sensitive)
  }
  expect(risk.sensitiveCategory({ method: 'HEAD', pathTemplate: '/v1/admin/billing/treasury-report' })).toBe('billing')
  expect(risk.sensitiveCategory({ method: 'PUT', pathTemplate: '/v1/admin/billing/treasury-report' })).toBeNull()
  expect(risk.sensitiveCategory({ method: 'GET', pathTemplate: '/v1/admin/*' })).toBeNull()
})

test('§16: a command is reviewed when only an admin may give it or its reason is missing', () => {
  const review = (action: string, actorType: string, reasonPresent: boolean) =>
    risk.needsReview({ action, actorType, reasonPresent })
  expect(review('node.revoke', 'admin_token', true)).toBe(true)
  expect(review('node.drain', 'admin_token', false)).toBe(true)
  expect(review('node.drain', 'admin_token', true)).toBe(false)
  expect(review('job.cancel', 'admin_token', false)).toBe(true)
  expect(review('job.cancel', 'customer', false)).toBe(false)
  expect(review('job.create', 'customer', false)).toBe(false)
  expect(
    ['node.drain', 'node.revoke', 'job.cancel', 'job.create'].map((action): string => risk.commandCategory(action)),
  ).toEqual([...['node_control', 'node_control', 'node_control', 'private_jobs']])
})

test('§16: ready without a blocker; each fact has its own', () => {
  const ready: WorkflowFacts = {
    approvalTablePresent: true,
    tokenSharedAcrossRoles: false,
    auditKeyGiven: true,
    reasonEnforced: true,
    secondApproverRequired: true,
    retentionDaysMin: 30,
  }
  expect(workflowBlockers(ready)).toEqual([])
  expect(workflowStatus([])).toBe('ready')
  const each: readonly (readonly [Partial<WorkflowFacts>, string])[] = [
    [{ approvalTablePresent: false }, 'approval_events_table_missing'],
    [{ tokenSharedAcrossRoles: true }, 'admin_token_shared_across_roles'],
    [{ auditKeyGiven: false }, 'audit_hmac_key_missing'],
    [{ reasonEnforced: false }, 'reason_not_enforced'],
    [{ secondApproverRequired: false }, 'second_approver_not_configured'],
    [{ retentionDaysMin: 29 }, 'audit_min_retention_low'],
  ]
  for (const [fact, name] of each) {
    const blockers = workflowBlockers({ ...ready, ...fact })
    expect<readonly string[]>(blockers).toEqual([name])
    expect(workflowStatus(blockers)).toBe('transitional')
  }
})
