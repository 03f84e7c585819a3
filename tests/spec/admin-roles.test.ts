import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Role } from '../../src/actors/access.ts'
import { RouteTable } from '../../src/http/route-table.ts'
import { newToken } from '../../src/secrets.ts'
import { json, startTestGateway, type TestGateway } from '../support/http-gateway.ts'

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway.stop())

const roles = ['viewer', 'operator', 'admin'] as const
const rank = (role: Role) => roles.indexOf(role)
const rows = () => new RouteTable(gateway.app).rows.filter(({ path }) => path.startsWith('/v1/admin/'))
/** A path that exists and an object that does not: nothing is changed by asking. */
const target = (path: string) => path.replaceAll(/:\w+/g, 'none')
const request = (method: string) => (method === 'GET' ? {} : { json: {} })

/** Decisions §23, as far as it is served. */
const matrix: Readonly<Record<string, Role>> = {
  'POST /v1/admin/customers': 'admin',
  'GET /v1/admin/customers': 'operator',
  'GET /v1/admin/customers/:customer_id': 'operator',
  'PATCH /v1/admin/customers/:customer_id': 'admin',
  'POST /v1/admin/customers/:customer_id/token': 'admin',
  'POST /v1/admin/customers/:customer_id/webhook-secret': 'admin',
  'POST /v1/admin/customers/:customer_id/keys': 'admin',
  'GET /v1/admin/customers/:customer_id/keys': 'operator',
  'POST /v1/admin/keys/:key_id/rotate': 'admin',
  'DELETE /v1/admin/keys/:key_id': 'admin',
  'POST /v1/admin/nodes': 'operator',
  'GET /v1/admin/nodes': 'viewer',
  'GET /v1/admin/nodes/:node_id': 'viewer',
  'PATCH /v1/admin/nodes/:node_id': 'operator',
  'DELETE /v1/admin/nodes/:node_id': 'admin',
  'POST /v1/admin/nodes/:node_id/drain': 'operator',
  'POST /v1/admin/nodes/:node_id/resume': 'operator',
  'POST /v1/admin/nodes/:node_id/revoke': 'admin',
  'POST /v1/admin/enrollment-tokens': 'operator',
  'GET /v1/admin/enrollment-tokens': 'operator',
  'DELETE /v1/admin/enrollment-tokens/:token_id': 'operator',
  'GET /v1/admin/models': 'viewer',
  'PUT /v1/admin/models': 'operator',
  'DELETE /v1/admin/models': 'operator',
  'GET /v1/admin/explain': 'viewer',
  'GET /v1/admin/mixtures': 'viewer',
  'GET /v1/admin/machines': 'viewer',
  'GET /v1/admin/machines/:machine/transitions': 'viewer',
  'GET /v1/admin/inspect': 'viewer',
}

test('§23: every admin route has the role the decisions give it', () => {
  expect(Object.fromEntries(rows().map(({ method, path, role }) => [`${method} ${path}`, role]))).toEqual(matrix)
})

test('§4: without a token and with a wrong one every admin route answers 401', async () => {
  const credentials = [
    {},
    { 'x-svc-admin-token': '' },
    { 'x-svc-admin-token': 'nonsense' },
    { authorization: `Bearer ${gateway.tokens.admin}` },
  ]
  const strict = await startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000' })
  try {
    for (const { method, path } of rows()) {
      for (const headers of [...credentials, { 'x-svc-admin-token': newToken('admin') }]) {
        const response = await strict.ask(method, target(path), { headers, ...request(method) })
        expect([method, path, response.status]).toEqual([method, path, 401])
      }
    }
  } finally {
    await strict.stop()
  }
})

test('§4: below its role a route answers 403, from it on never', async () => {
  for (const { method, path, role } of rows()) {
    for (const as of roles) {
      const response = await gateway.ask(method, target(path), { as, ...request(method) })
      const enough = rank(as) >= rank(role ?? 'admin')
      const expected = enough ? [400, 404, 200] : [403]
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
