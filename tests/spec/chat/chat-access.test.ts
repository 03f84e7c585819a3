import { describe, expect, test } from 'bun:test'
import { newToken } from '../../../src/secrets.ts'
import type { ExpectedRefusal } from '../../support/clients/chat-refusal.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { nodeAt } from '../../support/nodes/fake-nodes.ts'
import { bad, chatPath, messages, refused, startChatPool } from '../../support/pools/chat-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const pool = await fixture(startChatPool())

describe('§4: who may chat', () => {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const unauthorized = (code: string, param: string | null = 'header.authorization'): ExpectedRefusal => ({
    status: 401,
    code,
    param,
    retry: false,
  })
  const asCustomer = (id = pool.customer.customerId, token = pool.customer.customerToken) => ({
    'x-svc-customer-id': id,
    'x-svc-customer-token': token,
  })
  const post = (headers: Record<string, string>) =>
    fetch(pool.gateway.url + chatPath, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'm', messages }),
    })

  test('a pool.gateway key alone; the scheme in any case', async () => {
    expect((await post(bearer(pool.customer.key))).status).toBe(200)
    expect((await post({ authorization: `bEaReR   ${pool.customer.key}` })).status).toBe(200)
  })

  test('an operator’s or an admin’s token with both pool.customer headers acts for that customer', async () => {
    for (const token of [pool.gateway.tokens.operator, pool.gateway.tokens.admin]) {
      const response = await post({ ...bearer(token), ...asCustomer() })
      expect(response.status).toBe(200)
    }
    const theirs = await post({
      ...bearer(pool.gateway.tokens.operator),
      ...asCustomer(pool.other.customerId, pool.other.customerToken),
    })
    await refused(theirs, { status: 404, code: 'model_not_found', param: 'model', retry: false })
  })

  test('no credential', async () => {
    await refused(await post({}), unauthorized('missing_credentials'))
  })

  test('customer headers without a bearer', async () => {
    await refused(await post(asCustomer()), unauthorized('missing_credentials'))
  })

  test.each([
    ['both headers', () => asCustomer()],
    ['the id alone', () => ({ 'x-svc-customer-id': pool.customer.customerId })],
    ['the token alone', () => ({ 'x-svc-customer-token': pool.customer.customerToken })],
    ['empty headers', () => ({ 'x-svc-customer-id': '', 'x-svc-customer-token': '' })],
  ] as const)('a pool.gateway key together with %s', async (_name, more) => {
    await refused(await post({ ...bearer(pool.customer.key), ...more() }), bad('conflicting_credentials'))
  })

  test('an operator’s token without the pool.customer, or with half of it', async () => {
    const { operator } = pool.gateway.tokens
    const { 'x-svc-customer-id': id, 'x-svc-customer-token': token } = asCustomer()
    const missing = unauthorized('missing_credentials', 'header.x-svc-customer-id')
    await refused(await post(bearer(operator)), missing)
    await refused(await post({ ...bearer(operator), 'x-svc-customer-token': token }), missing)
    await refused(await post({ ...bearer(operator), 'x-svc-customer-id': id }), {
      ...missing,
      param: 'header.x-svc-customer-token',
    })
  })

  test('the wrong pool.customer, the same answer for unknown and for wrong', async () => {
    const { operator } = pool.gateway.tokens
    const messagesSeen = new Set<string>()
    for (const headers of [
      asCustomer(pool.customer.customerId, pool.other.customerToken),
      asCustomer(pool.customer.customerId, 'nonsense'),
      asCustomer('cus_00000000000000000000000000'),
    ]) {
      const refusal = await refused(
        await post({ ...bearer(operator), ...headers }),
        unauthorized('invalid_credentials'),
      )
      messagesSeen.add(refusal.message)
    }
    expect(messagesSeen.size).toBe(1)
    // By its prefix a credential of another kind is told that it is one, valid or not.
    for (const token of [pool.customer.customerToken, newToken('customer'), pool.gateway.tokens.viewer]) {
      const { message } = await refused(await post(bearer(token)), unauthorized('invalid_api_key'))
      expect(message).toMatch(/^You sent a (customer|viewer) token in Authorization\. This route needs a gateway key/)
    }
  })

  test('a key that is malformed, unknown, revoked, expired, or no pool.gateway key: one answer', async () => {
    const revoked = await pool.gateway.customer()
    await pool.gateway.admin('DELETE', `/v1/admin/keys/${revoked.keyId}`)
    const soon = new Date(Date.now() + 3_000).toISOString()
    const expiring = await pool.gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${pool.customer.customerId}/keys`,
      { name: 'short', expires_at: soon },
    )
    await waitFor('the key to expire', () => Date.now() > Date.parse(soon))
    const tokens = ['svc_gateway_short', newToken('gateway'), revoked.key, expiring.gateway_key, 'nonsense']
    const messagesSeen = new Set<string>()
    for (const token of tokens) {
      messagesSeen.add((await refused(await post(bearer(token)), unauthorized('invalid_api_key'))).message)
    }
    for (const authorization of ['Basic dTpw', 'Bearer', pool.customer.key, `Bearer ${pool.customer.key} x`]) {
      messagesSeen.add((await refused(await post({ authorization }), unauthorized('invalid_api_key'))).message)
    }
    expect(messagesSeen.size).toBe(1)
    // By its prefix a credential of another kind is told that it is one, valid or not.
    for (const token of [pool.customer.customerToken, newToken('customer'), pool.gateway.tokens.viewer]) {
      const { message } = await refused(await post(bearer(token)), unauthorized('invalid_api_key'))
      expect(message).toMatch(/^You sent a (customer|viewer) token in Authorization\. This route needs a gateway key/)
    }
  })

  test('a viewer cannot spend for a customer', async () => {
    const response = await post({ ...bearer(pool.gateway.tokens.viewer), ...asCustomer() })
    await refused(response, unauthorized('invalid_api_key'))
  })

  test('an account that is not active', async () => {
    for (const status of ['suspended', 'closed']) {
      const paused = await pool.gateway.customer()
      await pool.gateway.admin('PATCH', `/v1/admin/customers/${paused.customerId}`, { account_status: status })
      await refused(await pool.ask({}, { key: paused.key }), { status: 403, code: 'account_suspended', retry: false })
    }
  })
})

describe('§5: the pin', () => {
  test.each([
    ['in the body', () => [{ svc: { node_id: pool.ownNodeId } }, ''] as const],
    ['in the query', () => [{}, `?node_id=${pool.ownNodeId}`] as const],
    ['in both', () => [{ svc: { node_id: pool.ownNodeId } }, `?node_id=${pool.ownNodeId}`] as const],
    [
      'percent-encoded, beside unknown parameters',
      () => [{}, `?x=1&x=2&node_id=${pool.ownNodeId.replace('_', '%5F')}`] as const,
    ],
  ])('%s', async (_name, pin) => {
    const [body, query] = pin()
    for (let i = 0; i < 4; i++) {
      const before = pool.own.requests.length
      await pool.accepted(body, { query })
      expect(pool.own.requests.length).toBe(before + 1)
    }
  })

  test('body and query do not agree', async () => {
    await refused(
      await pool.ask({ svc: { node_id: pool.ownNodeId } }, { query: `?node_id=${pool.secondNodeId}` }),
      bad('node_pin_conflict', 'query.node_id'),
    )
  })

  test.each([
    ['twice', () => `?node_id=${pool.ownNodeId}&node_id=${pool.ownNodeId}`],
    ['empty', () => '?node_id='],
    ['no id', () => '?node_id=a%20b'],
  ])('a query parameter that is %s', async (_name, query) => {
    await refused(await pool.ask({}, { query: query() }), bad('invalid_parameter', 'query.node_id'))
  })

  test('unknown or somebody else’s: the same answer', async () => {
    const told = new Set<string>()
    for (const nodeId of ['node_00000000000000000000000000', pool.foreignNodeId]) {
      const expected = { status: 403, code: 'node_pin_forbidden', param: 'svc.node_id', retry: false }
      told.add((await refused(await pool.ask({ svc: { node_id: nodeId } }), expected)).message)
    }
    expect(told.size).toBe(1)
  })

  test('no failover from a pinned node', async () => {
    pool.own.setFaults({ kind: 'status500', times: 1 })
    const second = nodeAt(pool.nodes, 1)
    const before = second.requests.length
    await refused(await pool.ask({ svc: { node_id: pool.ownNodeId } }), {
      status: 502,
      code: 'upstream_error',
      retry: true,
    })
    expect(second.requests.length).toBe(before)
  })
})

describe('§9: the profile', () => {
  test('restricts the choice to it', async () => {
    const before = pool.own.requests.length
    for (let i = 0; i < 4; i++) await pool.accepted({ svc: { model_profile_id: pool.profileId } })
    expect(pool.own.requests.length).toBe(before + 4)
  })

  test.each([
    ['unknown', () => 'mp_00000000000000000000000000'],
    ['somebody else’s', () => pool.foreignProfileId],
  ])('%s', async (_name, id) => {
    const body = { svc: { model_profile_id: id() } }
    await refused(await pool.ask(body), {
      status: 404,
      code: 'model_not_found',
      param: 'svc.model_profile_id',
      retry: false,
    })
  })
})

describe('§1: x-request-id', () => {
  test('ours on every response, never the one that came in', async () => {
    const headers = { 'x-request-id': 'mine-1' }
    const seen = new Set<string>()
    for (const body of [{}, { stream: true }, { n: 2 }, { model: 'unknown' }]) {
      const response = await pool.ask(body, { headers })
      const text = await response.text()
      const id = response.headers.get('x-request-id') ?? ''
      expect(id).toMatch(/^req_[0-9A-HJKMNP-TV-Z]{26}$/)
      expect(text).toContain(`"request_id":"${id}"`)
      expect(text).not.toContain('mine-1')
      seen.add(id)
    }
    expect(seen.size).toBe(4)
  })
})
