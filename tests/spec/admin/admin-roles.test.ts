import { expect, test } from 'bun:test'
import { type AnyElysia, Elysia } from 'elysia'
import { type AdminAction, adminRoutes } from '../../../src/actions/registry.ts'
import type { Role } from '../../../src/actors/accounts/access.ts'
import { actionKey, bracedPath, checkAdminRoutes, RouteTable } from '../../../src/http/frame/route-table.ts'
import { adminRouteFaults } from '../../../src/machines/rules/admin-route.ts'
import { newToken } from '../../../src/secrets.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())

const roles = ['viewer', 'operator', 'admin'] as const
const rank = (role: Role) => roles.indexOf(role)
const rows = () => new RouteTable(gateway.app).rows.filter(({ path }) => path.startsWith('/v1/admin/'))
/** A path that exists and an object that does not: nothing is changed by asking. */
const target = (path: string) => path.replaceAll(/:\w+/g, 'none')
const request = (method: string) => (method === 'GET' ? {} : { json: {} })

/** §4 and §23: written by hand, so that the table cannot agree with itself. */
const matrix: Readonly<Record<Role, readonly string[]>> = {
  admin: [
    'POST /v1/admin/customers/:customer_id/credits',
    'POST /v1/admin/customers/:customer_id/debits',
    'POST /v1/admin/retention/audit-events/purge',
    'POST /v1/admin/audit/rows',
    'POST /v1/admin/customers',
    'PATCH /v1/admin/customers/:customer_id',
    'POST /v1/admin/customers/:customer_id/token',
    'POST /v1/admin/customers/:customer_id/webhook-secret',
    'POST /v1/admin/customers/:customer_id/keys',
    'PATCH /v1/admin/keys/:key_id',
    'POST /v1/admin/keys/:key_id/rotate',
    'DELETE /v1/admin/keys/:key_id',
    'DELETE /v1/admin/nodes/:node_id',
    'POST /v1/admin/nodes/:node_id/revoke',
    'POST /v1/admin/nodes/:node_id/owner',
    'POST /v1/admin/payout-batches',
    'POST /v1/admin/payout-batches/:batch_id/submit',
    'POST /v1/admin/payout-batches/:batch_id/retry',
    'POST /v1/admin/receipts/:receipt_hash/release',
    'POST /v1/admin/receipts/:receipt_hash/reject',
    'POST /v1/admin/log/fork',
    'POST /v1/admin/admins',
    'GET /v1/admin/admins',
    'DELETE /v1/admin/admins/:admin_id',
    'GET /v1/admin/sessions',
    'DELETE /v1/admin/sessions/:session_id',
  ],
  operator: [
    'GET /v1/admin/customers/:customer_id/usage-export',
    'GET /v1/admin/customers/:customer_id/invoice',
    'GET /v1/admin/billing/treasury-report',
    'GET /v1/admin/billing/costs',
    'GET /v1/admin/customers',
    'GET /v1/admin/customers/:customer_id',
    'GET /v1/admin/customers/:customer_id/keys',
    'GET /v1/admin/keys',
    'POST /v1/admin/nodes',
    'POST /v1/admin/nodes/probe',
    'POST /v1/admin/nodes/discover',
    'POST /v1/admin/nodes/:node_id/sleep',
    'POST /v1/admin/nodes/:node_id/wake',
    'POST /v1/admin/policy-preview',
    'POST /v1/admin/nodes/:node_id/models/copy',
    'POST /v1/admin/nodes/:node_id/models/load',
    'POST /v1/admin/nodes/:node_id/models/unload',
    'POST /v1/admin/nodes/:node_id/pulls',
    'POST /v1/admin/nodes/:node_id/pulls/:pull_id/cancel',
    'GET /v1/admin/nodes/:node_id/pulls',
    'POST /v1/admin/nodes/:node_id/models/logs',
    'PATCH /v1/admin/nodes/:node_id',
    'POST /v1/admin/nodes/:node_id/drain',
    'POST /v1/admin/nodes/:node_id/resume',
    'GET /v1/admin/joins',
    'POST /v1/admin/joins/:join_id/confirm',
    'POST /v1/admin/joins/:join_id/refuse',
    'POST /v1/admin/enrollment-tokens',
    'GET /v1/admin/enrollment-tokens',
    'DELETE /v1/admin/enrollment-tokens/:token_id',
    'PUT /v1/admin/models',
    'PATCH /v1/admin/models',
    'DELETE /v1/admin/models',
    'POST /v1/admin/commands/:command_id/cancel',
    'POST /v1/admin/webhooks/:webhook_id/redeliver',
    'GET /v1/admin/ledger/proof',
    'GET /v1/admin/ledger/check',
  ],
  viewer: [
    'GET /v1/admin/access-events',
    'GET /v1/admin/approval-events',
    'GET /v1/admin/command-events',
    'GET /v1/admin/audit/summary',
    'GET /v1/admin/audit/export',
    'GET /v1/admin/alerts',
    'GET /v1/admin/failures',
    'GET /v1/admin/traffic',
    'GET /v1/admin/traffic/first-tokens',
    'GET /v1/admin/traffic/marks',
    'GET /v1/admin/audit/verify',
    'GET /v1/admin/approval-policy',
    'GET /v1/admin/nodes',
    'GET /v1/admin/nodes/:node_id',
    'GET /v1/admin/models',
    'GET /v1/admin/commands/:command_id',
    'GET /v1/admin/payout-batches',
    'GET /v1/admin/payout-batches/:batch_id/proofs',
    'GET /v1/admin/held-receipts',
    'GET /v1/admin/plan',
    'GET /v1/admin/explain',
    'GET /v1/admin/receipts/:receipt_hash',
    'GET /v1/admin/requests',
    'GET /v1/admin/requests/:request_id',
    'GET /v1/admin/jobs',
    'GET /v1/admin/webhooks',
    'GET /v1/admin/mixtures',
    'GET /v1/admin/machines',
    'GET /v1/admin/machines/:machine/transitions',
    'GET /v1/admin/inspect',
    'POST /v1/admin/sessions',
    'DELETE /v1/admin/session',
  ],
}

test('§4, §23: the table gives every admin route the role that the specification gives it', () => {
  const table = Object.values(adminRoutes).map(({ method, path, role }) => [`${method} ${path}`, role])
  const decided = Object.entries(matrix).flatMap(([role, places]) => places.map((place) => [place, role]))
  expect(table.sort()).toEqual(decided.sort())
})

test('§16: every admin route that is mounted has a row, and every row is mounted', () => {
  expect(adminRouteFaults(rows(), adminRoutes)).toEqual([])
  const mounted = rows().map(({ action }) => action)
  expect((Object.keys(adminRoutes) as AdminAction[]).filter((action) => !mounted.includes(action)).sort()).toEqual([])
})

test('§16: the start refuses an admin route without a row, with a wrong one, and with one that is taken', () => {
  const named = (action: AdminAction) => ({ detail: { [actionKey]: adminRoutes[action] } as object })
  const nothing = () => ''
  const path = '/v1/admin/nodes'
  const faults = (app: AnyElysia) => () => checkAdminRoutes(app, adminRoutes)
  expect(faults(new Elysia().get(path, nothing, named('node.list')))).not.toThrow()
  expect(faults(new Elysia().get(path, nothing))).toThrow('names no action')
  expect(faults(new Elysia().get('/v1/admin/new', nothing, named('node.list')))).toThrow('node.list is GET')
  expect(faults(new Elysia().put(path, nothing, named('node.list')))).toThrow('node.list is GET')
})

test('§4: a role token that comes as bearer is refused with the name of its header', async () => {
  const admin = newToken('admin')
  const sent = (authorization: string) => gateway.ask('GET', '/v1/admin/nodes', { headers: { authorization } })
  const refused = await sent(`Bearer ${admin}`)
  const body = await json(refused)
  expect([refused.status, body.code]).toEqual([401, 'missing_credentials'])
  expect(body.detail).toContain('Send it as X-SVC-Admin-Token')
  expect(JSON.stringify(body)).not.toContain(admin)
  expect(JSON.stringify(await json(await sent('Bearer sk-other')))).not.toContain('Send it as')
})

test('§9: OpenAPI says role and action of every admin route', async () => {
  const { paths } = (await json(await gateway.ask('GET', '/openapi.json'))) as {
    paths: Record<string, Record<string, { description: string }>>
  }
  for (const { method, path, action, role } of rows()) {
    expect(paths[bracedPath(path)]?.[method.toLowerCase()]?.description).toContain(
      `Least role: ${role}. Action: \`${action}\`.`,
    )
  }
})

test('§4: without a token and with a wrong one every admin route answers 401', async () => {
  const credentials = [
    {},
    { 'x-svc-admin-token': '' },
    { 'x-svc-admin-token': 'nonsense' },
    { authorization: `Bearer ${gateway.tokens.admin}` },
  ]
  await using strict = await scoped(startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000' }))
  for (const { method, path } of rows()) {
    for (const headers of [...credentials, { 'x-svc-admin-token': newToken('admin') }]) {
      const response = await strict.ask(method, target(path), { headers, ...request(method) })
      expect([method, path, response.status]).toEqual([method, path, 401])
    }
  }
})

test('§4: below its role a route answers 403, from it on never', async () => {
  for (const { method, path, role } of rows()) {
    for (const as of roles) {
      const response = await gateway.ask(method, target(path), { as, ...request(method) })
      const enough = rank(as) >= rank(role ?? 'admin')
      // Signing in and out.
      const expected = enough ? [400, 404, 200, 201, 204] : [403]
      expect([method, path, as, expected.includes(response.status)]).toEqual([method, path, as, true])
      if (!enough) expect(await json(response)).toMatchObject({ code: 'insufficient_role' })
    }
  }
})

test('§4: a token is compared whole, and its role is its own', async () => {
  const cut = gateway.tokens.admin.slice(0, -1)
  const status = async (token: string) =>
    (await gateway.ask('GET', '/v1/admin/nodes', { headers: { 'x-svc-admin-token': token } })).status
  expect(await status(cut)).toBe(401)
  expect(await status(`${gateway.tokens.admin}0`)).toBe(401)
  expect(await status(gateway.tokens.admin)).toBe(200)
})
