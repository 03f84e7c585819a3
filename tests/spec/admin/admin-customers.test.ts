import { expect, test } from 'bun:test'
import { isWellFormedToken } from '../../../src/secrets.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const create = async (body: object = { display_name: 'Alice' }) => {
  const response = await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: body })
  expect(response.status).toBe(201)
  return json(response)
}
const read = async (id: unknown) => json(await gateway.ask('GET', `/v1/admin/customers/${id}`, { as: 'operator' }))

test('§23: create answers 201 with token and webhook secret, which no later answer shows', async () => {
  const policy = { min_privacy_class: 'trusted', daily_token_quota: 1000, allowed_models: ['a-*'] }
  const { customer_token, webhook_secret, ...customer } = await create({
    display_name: 'Ünïcode Ltd',
    gateway_policy: policy,
    reason: 'first customer',
  })
  expect(isWellFormedToken(String(customer_token), 'customer')).toBe(true)
  expect(String(webhook_secret)).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(customer).toEqual({
    customer_id: expect.stringMatching(/^cus_[0-9A-Z]{26}$/),
    display_name: 'Ünïcode Ltd',
    account_status: 'active',
    gateway_policy: policy,
    balance_wei: '0',
    reserved_wei: '0',
    available_wei: '0',
    created_at: expect.stringMatching(instant),
    etag: expect.stringMatching(/^"[0-9a-f-]{36}"$/),
  })
  expect(await read(customer.customer_id)).toEqual(customer)
  const listed = await (await gateway.ask('GET', '/v1/admin/customers', { as: 'admin' })).text()
  expect(listed).not.toContain(String(customer_token))
  expect(listed).not.toContain('whsec_')
  expect(JSON.stringify(gateway.logged())).not.toContain(String(customer_token))
})

test('§23: PATCH changes what it names, null takes the policy away', async () => {
  const { customer_id } = await create({ display_name: 'B', gateway_policy: { daily_token_quota: 5 } })
  const patch = async (body: object) => {
    const response = await gateway.ask('PATCH', `/v1/admin/customers/${customer_id}`, { as: 'admin', json: body })
    expect(response.status).toBe(200)
    return json(response)
  }
  expect(await patch({ account_status: 'suspended' })).toMatchObject({ display_name: 'B', account_status: 'suspended' })
  expect(await patch({ display_name: 'C' })).toMatchObject({
    display_name: 'C',
    gateway_policy: { daily_token_quota: 5 },
  })
  expect(await patch({ gateway_policy: null })).toMatchObject({ gateway_policy: null, account_status: 'suspended' })
  expect(await patch({})).toMatchObject({ display_name: 'C' })
})

test('§1: bodies are strict, and a control character is no name', async () => {
  for (const body of [
    {},
    { display_name: '' },
    { display_name: 'a\u0000b' },
    { display_name: 'x'.repeat(129) },
    { display_name: 5 },
    { display_name: 'A', customer_id: 'cus_mine' },
    { display_name: 'A', gateway_policy: { daily_token_quota: '5' } },
    { display_name: 'A', gateway_policy: { unknown: 1 } },
    { display_name: 'A', reason: 'x'.repeat(501) },
    [],
    null,
  ]) {
    const response = await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: body })
    expect([body, response.status, (await json(response)).code]).toEqual([body, 400, 'invalid_request'])
  }
})

test('§16: a reason may travel in the header, up to 500 characters', async () => {
  const send = (reason: string) =>
    gateway.ask('POST', '/v1/admin/customers', {
      as: 'admin',
      json: { display_name: 'R' },
      headers: { 'x-svc-reason': reason },
    })
  expect((await send('x'.repeat(500))).status).toBe(201)
  const long = await send('x'.repeat(501))
  expect(long.status).toBe(400)
  expect(await json(long)).toMatchObject({ code: 'invalid_parameter', errors: [{ header: 'x-svc-reason' }] })
})

test('§23: the token is replaced at once, the webhook secret too', async () => {
  const made = await create()
  const path = `/v1/admin/customers/${made.customer_id}`
  const token = await gateway.ask('POST', `${path}/token`, { as: 'admin' })
  expect(token.status).toBe(201)
  const { customer_token } = await json(token)
  expect(customer_token).not.toBe(made.customer_token)
  const { access } = gateway.gateway
  expect(await access.customer(String(made.customer_id), String(made.customer_token))).toBeNull()
  expect(await access.customer(String(made.customer_id), String(customer_token))).toMatchObject({
    customerId: made.customer_id,
  })
  const secret = await gateway.ask('POST', `${path}/webhook-secret`, { as: 'admin', json: { reason: 'leaked' } })
  expect(secret.status).toBe(201)
  expect((await json(secret)).webhook_secret).not.toBe(made.webhook_secret)
})

test('§23: the list is newest first, in pages', async () => {
  const made: unknown[] = []
  for (const name of ['p1', 'p2', 'p3']) made.unshift((await create({ display_name: name })).customer_id)
  const page = async (query: string) => {
    const body = await json(await gateway.ask('GET', `/v1/admin/customers?${query}`, { as: 'operator' }))
    const customers = body.customers as { customer_id: string }[]
    expect(body).toMatchObject({ object: 'svc.admin.customer_list', count: customers.length })
    expect(body.generated_at).toMatch(instant)
    return customers.map(({ customer_id }) => customer_id)
  }
  expect(await page('limit=2')).toEqual(made.slice(0, 2) as string[])
  expect((await page(`limit=1&before=${made[1]}`))[0]).toBe(String(made[2]))
})

test('§3: an unknown customer is 404 on every route', async () => {
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PATCH', '', { display_name: 'x' }],
    ['POST', '/token', undefined],
    ['POST', '/webhook-secret', undefined],
    ['POST', '/keys', { name: 'k' }],
    ['GET', '/keys', undefined],
  ] as const) {
    const options = body === undefined ? {} : { json: body }
    const response = await gateway.ask(method, `/v1/admin/customers/cus_none${path}`, { as: 'admin', ...options })
    expect([method, path, response.status]).toEqual([method, path, 404])
    expect(await json(response)).toMatchObject({ code: 'customer_not_found' })
  }
})
