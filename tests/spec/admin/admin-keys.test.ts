import { beforeEach, expect, test } from 'bun:test'
import { isWellFormedToken } from '../../../src/secrets.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

let customerId = ''
const gateway = await fixture(startTestGateway())

beforeEach(async () => {
  customerId = (await newAccount(gateway)).id
})

const keysPath = () => `/v1/admin/customers/${customerId}/keys`
const issue = async (body: object = { name: 'laptop' }) => {
  const response = await gateway.ask('POST', keysPath(), { as: 'admin', json: body })
  expect(response.status).toBe(201)
  return json(response)
}
const listWith = async (key: unknown) =>
  (await gateway.ask('GET', '/v1/api/models', { headers: { authorization: `Bearer ${key}` } })).status

test('§23: issuing answers 201 with the key itself, which no later answer shows', async () => {
  const { gateway_key, ...key } = await issue({
    name: 'laptop',
    model_policy: { allowed_models: ['llama-*'] },
    node_scope: ['node_1'],
    expires_at: '2100-01-01T02:00:00+02:00',
  })
  expect(isWellFormedToken(String(gateway_key), 'gateway')).toBe(true)
  expect(key).toEqual({
    key_id: expect.stringMatching(/^key_[0-9A-Z]{26}$/),
    customer_id: customerId,
    display_prefix: String(gateway_key).slice(0, 16),
    name: 'laptop',
    node_scope: ['node_1'],
    model_policy: { allowed_models: ['llama-*'] },
    created_at: expect.any(String),
    last_used_at: null,
    expires_at: '2100-01-01T00:00:00.000Z',
    revoked_at: null,
    etag: expect.stringMatching(/^"[0-9a-f]{64}"$/),
  })
  expect(await listWith(gateway_key)).toBe(200)
  const listed = await (await gateway.ask('GET', keysPath(), { as: 'operator' })).text()
  expect(JSON.parse(listed)).toMatchObject({ object: 'svc.admin.key_list', count: 1, keys: [key] })
  expect(listed).not.toContain(String(gateway_key))
})

test('§23: the keys of all customers are one list, newest first, without a secret; a viewer does not see it', async () => {
  const { gateway_key: secret, ...first } = await issue()
  customerId = (await newAccount(gateway)).id
  const second = await issue({ name: 'phone' })
  const answer = await gateway.ask('GET', '/v1/admin/keys?limit=2', { as: 'operator' })
  const text = await answer.text()
  expect(JSON.parse(text)).toMatchObject({
    count: 2,
    keys: [{ key_id: second.key_id, customer_id: customerId }, first],
  })
  expect(text).not.toContain(String(secret))
  expect((await gateway.ask('GET', '/v1/admin/keys', { as: 'viewer' })).status).toBe(403)
})

test('§4: a revoked key is dead at once; revoking again changes nothing', async () => {
  const { gateway_key, key_id } = await issue()
  expect(await listWith(gateway_key)).toBe(200)
  const revoke = () =>
    gateway.ask('DELETE', `/v1/admin/keys/${key_id}`, { as: 'admin', headers: { 'x-svc-reason': 'lost' } })
  const first = await revoke()
  expect(first.status).toBe(200)
  const { revoked_at } = await json(first)
  expect(revoked_at).toBeString()
  expect(await listWith(gateway_key)).toBe(401)
  expect((await json(await revoke())).revoked_at).toBe(revoked_at as string)
})

test('§4: rotation gives a new key now, and the old one works for as long as was asked', async () => {
  const old = await issue({ name: 'ci', model_policy: { denied_models: ['x'] } })
  const rotate = (id: unknown, body?: object) =>
    gateway.ask('POST', `/v1/admin/keys/${id}/rotate`, { as: 'admin', ...(body === undefined ? {} : { json: body }) })
  const response = await rotate(old.key_id)
  expect(response.status).toBe(201)
  const fresh = await json(response)
  expect(fresh).toMatchObject({ name: 'ci', model_policy: { denied_models: ['x'] }, customer_id: customerId })
  const keptMs = Date.parse(String(fresh.old_key_expires_at)) - Date.now()
  expect(keptMs).toBeGreaterThan(23.9 * 3_600_000)
  expect(keptMs).toBeLessThan(24.1 * 3_600_000)
  expect([await listWith(old.gateway_key), await listWith(fresh.gateway_key)]).toEqual([200, 200])
  const newest = await json(await rotate(fresh.key_id, { keep_seconds: 0, reason: 'leaked' }))
  expect([await listWith(fresh.gateway_key), await listWith(newest.gateway_key)]).toEqual([401, 200])
  const again = await rotate(fresh.key_id)
  expect([again.status, (await json(again)).code]).toEqual([409, 'invalid_state'])
  expect((await rotate(newest.key_id, { keep_seconds: 604_801 })).status).toBe(400)
})

test('§4: a customer has at most 10 live keys', async () => {
  for (let i = 0; i < 10; i++) await issue({ name: `k${i}` })
  const response = await gateway.ask('POST', keysPath(), { as: 'admin', json: { name: 'k11' } })
  expect([response.status, (await json(response)).code]).toEqual([409, 'key_limit_reached'])
  expect((await json(await gateway.ask('GET', `${keysPath()}?limit=3`, { as: 'operator' }))).count).toBe(3)
})

test('§1: bodies are strict and times are times', async () => {
  for (const body of [
    {},
    { name: '' },
    { name: 'k', gateway_key: 'mine' },
    { name: 'k', expires_at: 'tomorrow' },
    { name: 'k', expires_at: '2100-13-01T00:00:00Z' },
    { name: 'k', expires_at: '2001-01-01T00:00:00Z' },
    { name: 'k', node_scope: ['a b'] },
    { name: 'k', model_policy: { node_scope: [] } },
  ]) {
    const response = await gateway.ask('POST', keysPath(), { as: 'admin', json: body })
    expect([body, response.status, (await json(response)).code]).toEqual([body, 400, 'invalid_request'])
  }
})

test('§3: an unknown key is 404', async () => {
  for (const [method, path] of [
    ['DELETE', ''],
    ['POST', '/rotate'],
  ] as const) {
    const response = await gateway.ask(method, `/v1/admin/keys/key_none${path}`, { as: 'admin' })
    expect([response.status, (await json(response)).code]).toEqual([404, 'key_not_found'])
  }
})

test('§23: what a key may do changes at once; a revoked key and an end in the past are refused', async () => {
  const { key_id } = await issue({ name: 'laptop', model_policy: { priority: 3 } })
  const change = (json: object) => gateway.ask('PATCH', `/v1/admin/keys/${key_id}`, { as: 'admin', json })
  const changed = await change({ model_policy_changes: { denied_models: ['secret'], priority: null } })
  expect(changed.status).toBe(200)
  expect(await json(changed)).toMatchObject({ key_id, model_policy: { denied_models: ['secret'] } })
  expect(await json(await change({ expires_at: '2020-01-01T00:00:00Z' }))).toMatchObject({
    code: 'invalid_request',
    detail: 'expires_at must be in the future. To end a key now, revoke it.',
  })
  const unknown = await gateway.ask('PATCH', '/v1/admin/keys/key_none', { as: 'admin', json: { name: 'x' } })
  expect(await json(unknown)).toMatchObject({ status: 404, code: 'key_not_found' })
  await gateway.ask('DELETE', `/v1/admin/keys/${key_id}`, { as: 'admin', headers: { 'x-svc-reason': 'lost' } })
  expect(await json(await change({ name: 'again' }))).toMatchObject({ status: 409, code: 'invalid_state' })
  const refused = await gateway.ask('PATCH', `/v1/admin/keys/${key_id}`, { as: 'operator', json: { name: 'x' } })
  expect(refused.status).toBe(403)
})
