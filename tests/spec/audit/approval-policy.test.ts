import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Value } from '@sinclair/typebox/value'
import { createApp } from '../../../src/http/app.ts'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { ApprovalPolicy } from '../../../src/protocol/wire/admin/approval-policy.ts'
import { newToken } from '../../../src/secrets.ts'
import { type AskOptions, json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const production = {
  SVC_ENFORCE_REASON: 'true',
  SVC_REQUIRE_SECOND_APPROVER: 'true',
  SVC_AUDIT_MIN_RETENTION_DAYS: '30',
}
const gateway = await fixture(startTestGateway(production))

const path = '/v1/admin/approval-policy'
const policy = async (at = gateway, options: AskOptions = { as: 'viewer' }) =>
  (await json(await at.ask('GET', path, options))) as unknown as ApprovalPolicy

/** The policy of a gateway that was started with other settings. */
async function policyWith(env: Readonly<Record<string, string>>, options?: AskOptions) {
  await using own = await scoped(startTestGateway({ ...production, ...env }))
  return await policy(own, options)
}

type Row = ApprovalPolicy['actions'][number]
const row = (
  [action, category, method, route_template]: readonly [string, string, string, string],
  required_role: Row['required_role'],
  [current_enforcement, production_requirement]: readonly [string, string],
  rest: Partial<Row> = {},
): Row => ({
  action,
  category,
  method,
  route_template,
  required_role,
  reason_required: current_enforcement === 'role_token_reason_advisory',
  typed_confirmation: null,
  dry_run_supported: false,
  current_enforcement,
  production_requirement,
  ...rest,
})
const advisory = (requirement: string) => ['role_token_reason_advisory', requirement] as const
const plain = (requirement = 'role_token') => ['role_token', requirement] as const
const admin = '/v1/admin'

/** §16, by hand. */
const decided: readonly Row[] = [
  row(
    ['customer.credit.create', 'billing', 'POST', `${admin}/customers/:customer_id/credits`],
    'admin',
    advisory('reason_and_second_approver'),
  ),
  row(
    ['customer.debit.create', 'billing', 'POST', `${admin}/customers/:customer_id/debits`],
    'admin',
    advisory('reason_and_second_approver'),
  ),
  row(
    ['audit.retention.purge', 'retention', 'POST', `${admin}/retention/audit-events/purge`],
    'admin',
    ['role_token_typed_confirmation', 'second_approver'],
    { typed_confirmation: 'PURGE AUDIT EVENTS', dry_run_supported: true },
  ),
  row(['audit.rows.name', 'audit', 'POST', `${admin}/audit/rows`], 'admin', advisory('reason_and_second_approver')),
  row(
    ['customer.usage.export', 'data_export', 'GET', `${admin}/customers/:customer_id/usage-export`],
    'operator',
    plain('reason'),
  ),
  row(['billing.treasury.read', 'billing', 'GET', `${admin}/billing/treasury-report`], 'operator', plain()),
  row(['audit.access.read', 'audit', 'GET', `${admin}/access-events`], 'viewer', plain()),
  row(['audit.approval.read', 'audit', 'GET', `${admin}/approval-events`], 'viewer', plain()),
  row(['audit.command.read', 'audit', 'GET', `${admin}/command-events`], 'viewer', plain()),
  row(['audit.summary.read', 'audit', 'GET', `${admin}/audit/summary`], 'viewer', plain()),
  row(['approval.policy.read', 'audit', 'GET', path], 'viewer', plain()),
  ...(
    [
      ['gateway_key.issue', 'key_management', 'POST', `${admin}/customers/:customer_id/keys`],
      ['gateway_key.rotate', 'key_management', 'POST', `${admin}/keys/:key_id/rotate`],
      ['gateway_key.revoke', 'key_management', 'DELETE', `${admin}/keys/:key_id`],
    ] as const
  ).map((place) => row(place, 'admin', advisory('reason_and_second_approver'))),
  ...(
    [
      ['customer.create', 'billing', 'POST', `${admin}/customers`],
      ['customer.update', 'billing', 'PATCH', `${admin}/customers/:customer_id`],
      ['customer.token.rotate', 'billing', 'POST', `${admin}/customers/:customer_id/token`],
      ['node.revoke', 'node_control', 'POST', `${admin}/nodes/:node_id/revoke`],
    ] as const
  ).map((place) => row(place, 'admin', advisory('reason'))),
  ...(
    [
      ['node.enroll', 'node_control', 'POST', `${admin}/enrollment-tokens`],
      ['node.drain', 'node_control', 'POST', `${admin}/nodes/:node_id/drain`],
      ['node.resume', 'node_control', 'POST', `${admin}/nodes/:node_id/resume`],
      ['command.cancel', 'node_control', 'POST', `${admin}/commands/:command_id/cancel`],
    ] as const
  ).map((place) => row(place, 'operator', advisory('reason'))),
  row(['model.update', 'catalogue', 'PUT', `${admin}/models`], 'operator', plain('reason')),
  row(['payout.batch.create', 'settlement', 'POST', `${admin}/payout-batches`], 'admin', advisory('second_approver'), {
    dry_run_supported: true,
  }),
  row(
    ['payout.batch.submit', 'settlement', 'POST', `${admin}/payout-batches/:batch_id/submit`],
    'admin',
    advisory('second_approver'),
  ),
]

test('endpoint 20: every field, by its name and type', async () => {
  const body = await policy()
  expect(Value.Check(ApprovalPolicy, body)).toBe(true)
  const { actions, summary, ...rest } = body
  expect<object>(rest).toEqual({
    object: 'svc.admin.approval_policy',
    generated_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    policy_version: 'admin_approval_policy_v1',
    auth_model: 'bootstrap_role_tokens',
    workflow_status: 'ready',
    actor_role: 'viewer',
    storage: {
      events_table: 'admin_approval_events',
      events_table_present: true,
      status: 'ready',
      retention_policy: 'admin_audit_events_v1',
    },
    production_blocked_by: [],
  })
  const count = (holds: (each: Row) => boolean) => actions.filter(holds).length
  expect<object>(summary).toEqual({
    high_risk_action_count: count(({ required_role }) => required_role === 'admin'),
    reason_required_count: count(({ reason_required }) => reason_required),
    typed_confirmation_count: count(({ typed_confirmation }) => typed_confirmation !== null),
    dry_run_supported_count: 2,
  })
  expect((await policy(gateway, { as: 'operator' })).actor_role).toBe('operator')
  expect((await policy(gateway, { as: 'admin' })).actor_role).toBe('admin')
})

test('§16: the rows of the specification, and a row for every admin route that is mounted', async () => {
  const { actions } = await policyWith({ SVC_ENFORCE_REASON: 'false', SVC_REQUIRE_SECOND_APPROVER: 'false' })
  for (const expected of decided) {
    expect<unknown>(actions.find(({ action }) => action === expected.action)).toEqual(expected)
  }
  const routes = new Set(actions.map(({ method, route_template }) => `${method} ${route_template}`))
  const mounted = new RouteTable(gateway.app).rows.filter((each) => each.path.startsWith(`${admin}/`))
  expect(mounted.filter((each) => !routes.has(`${each.method} ${each.path}`))).toEqual([])
})

/** The rows of the table, one for each action: what stands in its other cells. */
function tabled() {
  const specification = readFileSync(join(import.meta.dir, '../../../docs/specification.md'), 'utf8')
  const table = /^\| Action \| Category \|.*\n\|[- |]+\n((?:\|.*\n)+)/m.exec(specification)?.[1] ?? ''
  return table
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      const [actions = '', ...cells] = line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim())
      return [...actions.matchAll(/`([^`]+)`/g)].map(([, action = '']) => ({ action, cells }))
    })
}

test('§16: each row of the table of the specification is what the policy says of its actions', async () => {
  const { actions } = await policyWith({ SVC_ENFORCE_REASON: 'false', SVC_REQUIRE_SECOND_APPROVER: 'false' })
  const rows = tabled()
  expect(rows.length).toBeGreaterThan(40)
  for (const { action, cells } of rows) {
    const [category = '', route = '', role = '', reason = '', dryRun = '', requirement = ''] = cells
    const told = actions.find((each) => each.action === action)
    const typed = /typed (?:confirmation )?`([^`]+)`/.exec(route)?.[1] ?? null
    const asked = [...(typed === null ? [] : ['typed_confirmation']), ...(reason === 'yes' ? ['reason_advisory'] : [])]
    expect<unknown>({ action, ...told }).toMatchObject({
      action,
      category,
      required_role: role,
      reason_required: reason === 'yes',
      dry_run_supported: dryRun === 'yes',
      typed_confirmation: typed,
      current_enforcement: ['role_token', ...(asked.length === 0 ? [] : [asked.join('_and_')])].join('_'),
      production_requirement: requirement.replaceAll('`', ''),
    })
    const named = [...route.matchAll(/`(?:[A-Z]+ )?(\/[^`]+)`/g)].map(([, path = '']) => `${admin}${path}`)
    if (named.length === 1 && !route.includes('{')) expect([action, told?.route_template]).toEqual([action, named[0]])
  }
  // The others are reads, which only their role guards.
  const known = new Set(rows.map(({ action }) => action))
  const others = actions.filter(({ action }) => !known.has(action))
  expect(others.filter(({ method }) => method !== 'GET' && method !== 'POST')).toEqual([])
  expect(others.filter(({ current_enforcement: now }) => now !== 'role_token')).toEqual([])
})

test('§27: what is enforced now follows the settings in force', async () => {
  const enforcedNow: Readonly<Record<string, readonly [none: string, reason: string, second: string, both: string]>> = {
    'customer.create': [
      'role_token_reason_advisory',
      'role_token_reason',
      'role_token_reason_advisory',
      'role_token_reason',
    ],
    'gateway_key.issue': [
      'role_token_reason_advisory',
      'role_token_reason',
      'role_token_reason_advisory_and_second_approver',
      'role_token_reason_and_second_approver',
    ],
    'audit.retention.purge': [
      'role_token_typed_confirmation',
      'role_token_typed_confirmation',
      'role_token_typed_confirmation_and_second_approver',
      'role_token_typed_confirmation_and_second_approver',
    ],
    'model.update': ['role_token', 'role_token', 'role_token', 'role_token'],
  }
  const settings = ['false/false', 'true/false', 'false/true', 'true/true'].map((both) => both.split('/'))
  for (const [at, [SVC_ENFORCE_REASON = '', SVC_REQUIRE_SECOND_APPROVER = '']] of settings.entries()) {
    const { actions } = await policyWith({ SVC_ENFORCE_REASON, SVC_REQUIRE_SECOND_APPROVER })
    for (const [name, now] of Object.entries(enforcedNow)) {
      const told = actions.find(({ action }) => action === name)?.current_enforcement
      expect<unknown>([SVC_ENFORCE_REASON, SVC_REQUIRE_SECOND_APPROVER, name, told]).toEqual([
        SVC_ENFORCE_REASON,
        SVC_REQUIRE_SECOND_APPROVER,
        name,
        now[at],
      ])
    }
  }
})

test('§16: what is not set blocks production, each setting by its name', async () => {
  const cases: readonly (readonly [Readonly<Record<string, string>>, readonly string[]])[] = [
    [{ SVC_ENFORCE_REASON: 'false' }, ['reason_not_enforced']],
    [{ SVC_REQUIRE_SECOND_APPROVER: 'false' }, ['second_approver_not_configured']],
    [{ SVC_AUDIT_MIN_RETENTION_DAYS: '29' }, ['audit_min_retention_low']],
  ]
  for (const [env, blockers] of cases) {
    const { workflow_status, production_blocked_by } = await policyWith(env)
    expect<unknown>([workflow_status, production_blocked_by]).toEqual(['transitional', blockers])
  }
})

test('§16: one token for two roles blocks production, given raw or as its digest', async () => {
  const token = newToken('operator')
  const digest = `sha256:${createHash('sha256').update(token).digest('hex')}`
  for (const again of [token, digest]) {
    const env = { SVC_OPERATOR_TOKENS: token, SVC_VIEWER_TOKENS: `${newToken('viewer')},${again}` }
    const body = await policyWith(env, { headers: { 'x-svc-admin-token': token } })
    expect(body).toMatchObject({
      actor_role: 'operator',
      workflow_status: 'transitional',
      production_blocked_by: ['admin_token_shared_across_roles'],
    })
  }
  const twice = { SVC_VIEWER_TOKENS: `${token},${digest}` }
  expect((await policyWith(twice, { headers: { 'x-svc-admin-token': token } })).production_blocked_by).toEqual([])
})

test('§16: the storage is looked at anew at each call', async () => {
  const { sql } = gateway.database
  await sql`alter table admin_approval_events rename to away`
  try {
    expect(await policy()).toMatchObject({
      workflow_status: 'transitional',
      storage: { events_table_present: false, status: 'missing' },
      production_blocked_by: ['approval_events_table_missing'],
    })
  } finally {
    await sql`alter table away rename to admin_approval_events`
  }
  expect(await policy()).toMatchObject({ workflow_status: 'ready', storage: { status: 'ready' } })
})

test('§16: a key that lies beside the database is none for production', async () => {
  // The settings of an embedded start over a gateway that runs: the key that it made itself is not among them.
  const embedded = Object.create(gateway.gateway, {
    config: { value: { ...gateway.gateway.config, SVC_AUDIT_KEY: null } },
  })
  const app = createApp(embedded).listen({ port: 0, hostname: '127.0.0.1' })
  try {
    const answer = await fetch(`http://127.0.0.1:${app.server?.port}${path}`, {
      headers: { 'x-svc-admin-token': gateway.tokens.viewer },
    })
    expect((await json(answer)).production_blocked_by).toEqual(['audit_hmac_key_missing'])
  } finally {
    await app.server?.stop(true)
  }
})
