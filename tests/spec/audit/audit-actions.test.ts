import { expect, test } from 'bun:test'
import { newToken } from '../../../src/secrets.ts'
import { type AskOptions, json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway())

interface Told {
  readonly status: number
  readonly requestId: string
  readonly body: Readonly<Record<string, unknown>>
}

async function tell(method: string, path: string, options: AskOptions = {}, at = gateway): Promise<Told> {
  const response = await at.ask(method, path, { as: 'admin', ...options })
  const text = await response.text()
  return {
    status: response.status,
    requestId: response.headers.get('x-request-id') ?? '',
    body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
  }
}

const approvals = (requestId: string, at = gateway) => at.database.sql`
  select action, category, target_type, target_id, actor_type, actor_role, actor_hash_prefix, approver_hash_prefix,
    approval_policy, reason, confirmation, metadata
  from admin_approval_events where request_id = ${requestId}`
const commands = (requestId: string) => gateway.database.sql`
  select command_id, action, actor_type, actor_role, reason, metadata
  from admin_command_events where request_id = ${requestId}`

test('§16: every admin verb writes its event: action, category, target, role, reason', async () => {
  const reason = 'because\u0007 of the test'
  const customer = await tell('POST', '/v1/admin/customers', { json: { display_name: 'A', reason } })
  const id = String(customer.body.customer_id)
  const path = `/v1/admin/customers/${id}`
  const update = await tell('PATCH', path, { json: { display_name: 'B', reason } })
  const token = await tell('POST', `${path}/token`, { json: { reason } })
  const secret = await tell('POST', `${path}/webhook-secret`, { headers: { 'x-svc-reason': 'by header' } })
  const issued = await tell('POST', `${path}/keys`, { json: { name: 'k', reason } })
  const keyId = String(issued.body.key_id)
  const rotated = await tell('POST', `/v1/admin/keys/${keyId}/rotate`, { json: { reason } })
  const revoked = await tell('DELETE', `/v1/admin/keys/${keyId}`, { headers: { 'x-svc-reason': 'by header' } })
  const nodeBody = { url: 'http://127.0.0.1:9', visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
  const operator = { as: 'operator' } as const
  const node = await tell('POST', '/v1/admin/nodes', { json: { ...nodeBody, customer_id: id, reason }, ...operator })
  const nodeId = String(node.body.node_id)
  const set = await tell('PATCH', `/v1/admin/nodes/${nodeId}`, { json: { name: 'n', reason }, ...operator })
  const model = await tell('PUT', '/v1/admin/models', { json: { id: 'org/model:1', reason }, ...operator })
  const gone = await tell('DELETE', '/v1/admin/models', { json: { id: 'org/model:1', reason }, ...operator })
  const enrollBody = { name: 'e', visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
  const enroll = await tell('POST', '/v1/admin/enrollment-tokens', {
    json: { ...enrollBody, customer_id: id, reason },
    ...operator,
  })
  const tokenId = String(enroll.body.token_id)
  const withdrawn = await tell('DELETE', `/v1/admin/enrollment-tokens/${tokenId}`, {
    headers: { 'x-svc-reason': 'by header' },
    ...operator,
  })
  const removed = await tell('DELETE', `/v1/admin/nodes/${nodeId}`, { headers: { 'x-svc-reason': 'by header' } })
  const state = expect.stringMatching(/^[0-9a-f]{64}$/)
  const expected: readonly (readonly [Told, string, string, string, string, string, object])[] = [
    [customer, 'customer.create', 'billing', 'customer', id, 'admin', { state }],
    [update, 'customer.update', 'billing', 'customer', id, 'admin', { state }],
    [token, 'customer.token.rotate', 'billing', 'customer', id, 'admin', { state }],
    [secret, 'customer.webhook_secret.rotate', 'billing', 'customer', id, 'admin', {}],
    [issued, 'gateway_key.issue', 'key_management', 'gateway_key', keyId, 'admin', { state }],
    [rotated, 'gateway_key.rotate', 'key_management', 'gateway_key', keyId, 'admin', { state }],
    [revoked, 'gateway_key.revoke', 'key_management', 'gateway_key', keyId, 'admin', { state }],
    [node, 'node.register', 'node_control', 'node', nodeId, 'operator', { node_state: 'active', state }],
    [set, 'node.update', 'node_control', 'node', nodeId, 'operator', { node_state: 'active', state }],
    [model, 'model.update', 'catalogue', 'model', 'org/model:1', 'operator', { state, prices: ['0', '0'] }],
    [gone, 'model.delete', 'catalogue', 'model', 'org/model:1', 'operator', { state, prices: ['0', '0'] }],
    [enroll, 'node.enroll', 'node_control', 'enrollment_token', tokenId, 'operator', {}],
    [withdrawn, 'node.enroll.withdraw', 'node_control', 'enrollment_token', tokenId, 'operator', {}],
    [removed, 'node.delete', 'node_control', 'node', nodeId, 'admin', { state }],
  ]
  const byHeader = [secret, revoked, withdrawn, removed]
  for (const [told, action, category, targetType, targetId, role, metadata] of expected) {
    expect([action, told.status < 300]).toEqual([action, true])
    expect([...(await approvals(told.requestId))]).toEqual([
      {
        action,
        category,
        target_type: targetType,
        target_id: targetId,
        actor_type: 'admin_token',
        actor_role: role,
        actor_hash_prefix: expect.stringMatching(/^[0-9a-f]{12}$/),
        approver_hash_prefix: null,
        approval_policy: 'admin_approval_policy_v1',
        // Control characters are taken out.
        reason: byHeader.includes(told) ? 'by header' : 'because of the test',
        confirmation: null,
        metadata,
      },
    ])
    expect(await commands(told.requestId)).toHaveLength(0)
  }
})

test('§16: what is told to a node has its command event, with an id of its own', async () => {
  const customer = await tell('POST', '/v1/admin/customers', { json: { display_name: 'A' } })
  const node = await tell('POST', '/v1/admin/nodes', {
    json: {
      customer_id: customer.body.customer_id,
      url: 'http://127.0.0.1:9',
      visibility: 'private',
      privacy_class: 'private',
      node_class: 'gpu',
    },
  })
  const ids = new Set<string>()
  const states = { drain: 'draining', resume: 'active', revoke: 'revoked' }
  for (const [verb, state] of Object.entries(states)) {
    const told = await tell('POST', `/v1/admin/nodes/${node.body.node_id}/${verb}`, { json: { reason: verb } })
    const [command] = await commands(told.requestId)
    expect(command).toMatchObject({
      action: `node.${verb}`,
      actor_type: 'admin_token',
      actor_role: 'admin',
      reason: verb,
      metadata: { node_state: state },
    })
    ids.add(String(command?.command_id))
    expect([...(await approvals(told.requestId))]).toMatchObject([{ action: `node.${verb}`, target_type: 'node' }])
  }
  expect([...ids].filter((id) => /^cmd_[0-9A-Z]{26}$/.test(id))).toHaveLength(3)
})

test('§16: a refused action leaves no event', async () => {
  const refused = [
    await tell('PATCH', '/v1/admin/customers/cus_nobody', { json: { display_name: 'B' } }),
    await tell('DELETE', '/v1/admin/keys/key_nobody'),
    await tell('POST', '/v1/admin/nodes/node_nobody/drain'),
    await tell('POST', '/v1/admin/customers', { json: { display_name: 'B' }, as: 'viewer' }),
  ]
  expect(refused.map(({ status }) => status)).toEqual([404, 404, 404, 403])
  for (const { requestId } of refused) {
    expect(await approvals(requestId)).toHaveLength(0)
    expect(await commands(requestId)).toHaveLength(0)
  }
})

test('§16: an action whose event cannot be written is taken back, and answers 503', async () => {
  const { sql } = gateway.database
  const customers = async () => (await sql`select count(*)::int as count from customers`)[0]?.count
  const { body } = await tell('POST', '/v1/admin/customers', { json: { display_name: 'kept' } })
  const before = await customers()
  for (const table of ['admin_approval_events', 'audit_chains']) {
    await sql.unsafe(`alter table ${table} rename to away`)
    const made = await tell('POST', '/v1/admin/customers', { json: { display_name: 'never' } })
    const changed = await tell('PATCH', `/v1/admin/customers/${body.customer_id}`, { json: { display_name: 'never' } })
    await sql.unsafe(`alter table away rename to ${table}`)
    expect([made.status, made.body.code, changed.status]).toEqual([503, 'service_unavailable', 503])
    expect(await customers()).toBe(before)
  }
  expect((await tell('GET', `/v1/admin/customers/${body.customer_id}`)).body.display_name).toBe('kept')
})

test('§16: an absent reason is marked; one too long is refused', async () => {
  const marked = await tell('POST', '/v1/admin/customers', { json: { display_name: 'A', reason: ' \u0000 ' } })
  expect([...(await approvals(marked.requestId))]).toMatchObject([{ reason: null, metadata: { reason_missing: true } }])
  // Actions that need none are not marked.
  const model = await tell('PUT', '/v1/admin/models', { json: { id: 'm' } })
  expect([...(await approvals(model.requestId))]).toMatchObject([{ reason: null, metadata: {} }])
  const long = await tell('POST', '/v1/admin/customers', { json: { display_name: 'A', reason: 'r'.repeat(501) } })
  const longHeader = await tell('DELETE', '/v1/admin/models', {
    json: { id: 'm' },
    headers: { 'x-svc-reason': 'r'.repeat(501) },
  })
  expect([long.status, longHeader.status]).toEqual([400, 400])
})

test('§16: with SVC_ENFORCE_REASON an action that needs a reason is refused without one', async () => {
  await using strict = await scoped(startTestGateway({ SVC_ENFORCE_REASON: 'true' }))
  const none = await tell('POST', '/v1/admin/customers', { json: { display_name: 'A' } }, strict)
  expect([none.status, none.body.code]).toEqual([400, 'reason_required'])
  const bare = await tell('DELETE', '/v1/admin/keys/key_nobody', {}, strict)
  expect([bare.status, bare.body.code]).toEqual([400, 'reason_required'])
  const headers = { 'x-svc-reason': 'because' }
  expect((await tell('DELETE', '/v1/admin/keys/key_nobody', { headers }, strict)).status).toBe(404)
  const given = await tell('POST', '/v1/admin/customers', { json: { display_name: 'A' }, headers }, strict)
  expect([...(await approvals(given.requestId, strict))]).toMatchObject([{ reason: 'because', metadata: {} }])
  expect((await tell('PUT', '/v1/admin/models', { json: { id: 'm' } }, strict)).status).toBe(200)
})

test('§16: with SVC_REQUIRE_SECOND_APPROVER marked actions need the token of another admin', async () => {
  const second = newToken('admin')
  const first = newToken('admin')
  await using strict = await scoped(
    startTestGateway({
      SVC_REQUIRE_SECOND_APPROVER: 'true',
      SVC_ADMIN_TOKENS: `${first},${second}`,
    }),
  )
  const as = (approver: string | null): AskOptions => ({
    json: { name: 'k' },
    headers: { 'x-svc-admin-token': first, ...(approver === null ? {} : { 'x-svc-approver-token': approver }) },
  })
  const issue = async (approver: string | null, path: string) => {
    const response = await strict.ask('POST', `${path}/keys`, as(approver))
    return { response, requestId: response.headers.get('x-request-id') ?? '' }
  }
  // Not marked: no second person.
  const made = await json(await strict.ask('POST', '/v1/admin/customers', { ...as(null), json: { display_name: 'A' } }))
  const path = `/v1/admin/customers/${made.customer_id}`
  const refusals: readonly (readonly [string | null, number, string])[] = [
    [null, 401, 'missing_credentials'],
    [newToken('admin'), 401, 'invalid_credentials'],
    [first, 403, 'insufficient_role'],
    [strict.tokens.operator, 403, 'insufficient_role'],
  ]
  for (const [approver, status, code] of refusals) {
    const { response } = await issue(approver, path)
    expect([response.status, (await json(response)).code]).toEqual([status, code])
  }
  const { response, requestId } = await issue(second, path)
  expect(response.status).toBe(201)
  const [event] = await approvals(requestId, strict)
  expect(event?.approver_hash_prefix).toMatch(/^[0-9a-f]{12}$/)
  expect(event?.approver_hash_prefix).not.toBe(event?.actor_hash_prefix)
})

test('§16: a week without its tables: access events make them, an action is refused once and then goes on', async () => {
  await using own = await scoped(startTestGateway())
  const { sql } = own.database
  const parts = await sql<{ name: string }[]>`
      select c.relname as name from pg_class c join pg_inherits i on i.inhrelid = c.oid
      where c.relkind = 'r' and c.relname ~ '^admin_(access|approval|command)_events_p'`
  for (const { name } of parts) await sql.unsafe(`drop table ${name}`)
  const make = async () => (await tell('POST', '/v1/admin/customers', { json: { display_name: 'A' } }, own)).status
  expect(await make()).toBe(503)
  await waitUntil('the tables are made', async () => (await make()) === 201)
  await waitUntil('the access events are written', () => own.gateway.audit.writer.written() >= 2)
  expect(own.gateway.audit.writer.dropped()).toBe(0)
})
