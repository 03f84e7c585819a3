import { expect, test } from 'bun:test'
import { fromBase64url } from '../../../src/protocol/signing/base64url.ts'
import { keyIdOf } from '../../../src/protocol/signing/ed25519.ts'
import { newToken } from '../../../src/secrets.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { enrollBody, newIdentity, transportKeyOf } from '../../support/nodes/enrolling.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const gateway = await fixture(
  startTestGateway({
    SVC_AUTH_FAILURES_PER_MINUTE: '10000',
    SVC_ENDPOINT_NETWORKS: '127.0.0.0/8',
    SVC_PUBLIC_URL: 'https://gateway.example',
    SVC_POLL_INTERVAL_MS: '100',
  }),
)
const { id: customerId } = await newAccount(gateway)

const grant = () => ({
  customer_id: customerId,
  name: 'desk',
  visibility: 'private',
  node_class: 'gpu',
  privacy_class: 'trusted',
})
const issue = async (more: object = {}) => {
  const response = await gateway.ask('POST', '/v1/admin/enrollment-tokens', {
    as: 'operator',
    json: { ...grant(), ...more },
  })
  expect(response.status).toBe(201)
  return json(response)
}
const issued: string[] = []
const issueToken = async (more: object = {}) => {
  const token = String((await issue(more)).enrollment_token)
  issued.push(token)
  return token
}
const enroll = (body: object) => gateway.ask('POST', '/v1/node-agent/enroll', { json: body })
/** Status and code of a refusal, with what it names. */
const refusal = async (body: object) => {
  const response = await enroll(body)
  const problem = await json(response)
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  return { status: response.status, code: problem.code, detail: String(problem.detail) }
}
const listed = async () => {
  const response = await gateway.ask('GET', '/v1/admin/enrollment-tokens', { as: 'operator' })
  return (await response.json()) as { readonly enrollment_tokens: readonly Record<string, unknown>[] }
}

test('§22: a token is shown once, names the agent file by its hash, works for 15 min, and is stored as a hash alone', async () => {
  const made = await issue({ reason: 'new machine' })
  expect({ ...made }).toMatchObject({
    token_id: expect.stringMatching(/^enr_[0-9A-Z]{26}$/),
    customer_id: customerId,
    name: 'desk',
    visibility: 'private',
    node_class: 'gpu',
    privacy_class: 'trusted',
    endpoint_url_allowed: false,
    state: 'open',
    used_at: null,
    node_id: null,
    gateway_url: 'https://gateway.example',
    agent: { url: 'https://gateway.example/v1/node-agent/agent.mjs' },
  })
  const token = String(made.enrollment_token)
  expect(token).toMatch(/^svc_enroll_[0-9A-Za-z]{49}$/)
  expect(made.display_prefix).toBe(token.slice(0, 16))
  expect(Date.parse(String(made.expires_at)) - Date.parse(String(made.created_at))).toBe(900_000)
  const list = await listed()
  expect(list.enrollment_tokens.map(({ token_id }) => token_id)).toContain(made.token_id)
  const rows = await gateway.database.sql`select t::text from enrollment_tokens t`
  expect(JSON.stringify([list, rows])).not.toContain(token.slice(17))
})

test('§23: bodies are strict, the customer exists; a withdrawn token is gone', async () => {
  const create = (body: object) => gateway.ask('POST', '/v1/admin/enrollment-tokens', { as: 'operator', json: body })
  for (const wrong of [
    { extra: 1 },
    { visibility: 'open' },
    { node_class: 'a b' },
    { name: '' },
    { privacy_class: 'x' },
  ]) {
    expect((await create({ ...grant(), ...wrong })).status).toBe(400)
  }
  const stranger = await create({ ...grant(), customer_id: 'cus_none' })
  expect([stranger.status, (await json(stranger)).code]).toEqual([404, 'customer_not_found'])
  const made = await issue()
  const remove = () => gateway.ask('DELETE', `/v1/admin/enrollment-tokens/${made.token_id}`, { as: 'operator' })
  expect((await remove()).status).toBe(204)
  const again = await remove()
  expect([again.status, (await json(again)).code]).toEqual([404, 'enrollment_token_not_found'])
  expect(await refusal(enrollBody(newIdentity(), String(made.enrollment_token)))).toMatchObject({
    status: 401,
    code: 'enrollment_token_invalid',
  })
})

test('§22: a machine becomes what its token says, and learns by which keys it will know the gateway', async () => {
  const made = await issue({ visibility: 'public' })
  const identity = newIdentity()
  const response = await enroll(enrollBody(identity, String(made.enrollment_token), { name: 'shed' }))
  expect(response.status).toBe(201)
  const answer = await json(response)
  expect(answer).toEqual({
    status: 'enrolled',
    protocol_version: 1,
    node_id: expect.stringMatching(/^node_[0-9A-Z]{26}$/),
    node_class: 'gpu',
    visibility: 'public',
    privacy_class: 'trusted',
    router_public_keys: [{ kid: expect.any(String), public_key_ed25519: expect.any(String) }],
    tunnel_url: 'wss://gateway.example/v1/node-agent/tunnel',
    endpoint_url: null,
    log_keys: [expect.stringMatching(/^svc-log\/[0-9a-f]{16}\+[0-9a-f]{8}\+/)],
  })
  const [router] = answer.router_public_keys as { kid: string; public_key_ed25519: string }[]
  expect(router?.kid).toBe(keyIdOf(fromBase64url(router?.public_key_ed25519 ?? '', 32) ?? new Uint8Array()))
  const used = (await listed()).enrollment_tokens.find(({ token_id }) => token_id === made.token_id)
  expect(used).toMatchObject({ state: 'used', node_id: answer.node_id, used_at: expect.any(String) })
  const node = await json(await gateway.ask('GET', `/v1/admin/nodes/${answer.node_id}`, { as: 'viewer' }))
  expect(node).toMatchObject({ kind: 'agent', name: 'shed', visibility: 'public', state: 'enrolled', transport: null })
  expect(node.identity_fingerprint).toMatch(/^SHA256:[A-Za-z0-9_-]{43}$/)
})

test('§22: a node may ask for less than its token, and gets it', async () => {
  const token = await issueToken({ visibility: 'public', endpoint_url_allowed: true })
  const wish = {
    visibility: 'private',
    node_class: 'gpu',
    endpoint_url: 'http://127.0.0.1:9/',
    payout_address: `0x${'ab'.repeat(20)}`,
  }
  const response = await enroll(enrollBody(newIdentity(), token, wish))
  expect(await json(response)).toMatchObject({ visibility: 'private', endpoint_url: 'http://127.0.0.1:9' })
})

test('§22: whatever is wrong is refused by its name, and the token is good as before', async () => {
  const token = await issueToken()
  const direct = await issueToken({ endpoint_url_allowed: true })
  const [identity, other] = [newIdentity(), newIdentity()]
  const body = (more: object = {}, after: object = {}) => enrollBody(identity, token, more, after)
  const smallOrder = Buffer.alloc(32)
  smallOrder[0] = 1
  const cases: readonly (readonly [string, object, number, string])[] = [
    ['another protocol version', body({ protocol_version: 2 }), 400, 'invalid_request'],
    ['an unknown member', body({ hostname: 'x' }), 400, 'invalid_request'],
    ['no transport key', body({ transport_keys: [] }), 400, 'invalid_request'],
    ['a signature over other words', body({}, { visibility: 'private' }), 401, 'signature_invalid'],
    [
      "somebody else's signature",
      { ...enrollBody(other, token), public_key_ed25519: identity.publicKey },
      401,
      'signature_invalid',
    ],
    ['a key of small order', body({ public_key_ed25519: smallOrder.toString('base64url') }), 400, 'invalid_request'],
    ["somebody else's transport key", body({ transport_keys: [transportKeyOf(other)] }), 400, 'invalid_request'],
    [
      'a misnamed transport key',
      body({ transport_keys: [{ ...transportKeyOf(identity), key_id: 'A'.repeat(22) }] }),
      400,
      'invalid_request',
    ],
    ['an unknown token', enrollBody(identity, newToken('enroll')), 401, 'enrollment_token_invalid'],
    ['a mistyped token', enrollBody(identity, `${token.slice(0, -1)}!`), 401, 'enrollment_token_invalid'],
    ['another kind of token', enrollBody(identity, gateway.tokens.admin), 401, 'enrollment_token_invalid'],
    ['more visibility', body({ visibility: 'public' }), 400, 'invalid_request'],
    ['another class', body({ node_class: 'cpu' }), 400, 'invalid_request'],
    ['an address where none is allowed', body({ endpoint_url: 'https://1.1.1.1' }), 400, 'invalid_request'],
    ['an inner address', enrollBody(identity, direct, { endpoint_url: 'https://10.0.0.1' }), 400, 'invalid_request'],
    ['port 0', enrollBody(identity, direct, { endpoint_url: 'https://1.1.1.1:0' }), 400, 'invalid_request'],
    ['port 0 at home', enrollBody(identity, direct, { endpoint_url: 'http://127.0.0.1:0/' }), 400, 'invalid_request'],
    [
      'plain http to the world',
      enrollBody(identity, direct, { endpoint_url: 'http://1.1.1.1' }),
      400,
      'invalid_request',
    ],
  ]
  for (const [what, wrong, status, code] of cases) {
    const seen = await refusal(wrong)
    expect([what, seen.status, seen.code]).toEqual([what, status, code])
    expect(seen.detail).not.toContain(token)
  }
  expect((await enroll(body())).status).toBe(201)
  expect((await enroll(enrollBody(newIdentity(), direct))).status).toBe(201)
})

test('§22: an expired token is as good as none', async () => {
  const made = await issue()
  await gateway.database
    .sql`update enrollment_tokens set expires_at = now() - interval '1 second' where token_id = ${String(made.token_id)}`
  const body = enrollBody(newIdentity(), String(made.enrollment_token))
  expect(await refusal(body)).toMatchObject({ status: 401, code: 'enrollment_token_invalid' })
  const shown = (await listed()).enrollment_tokens.find(({ token_id }) => token_id === made.token_id)
  expect(shown?.state).toBe('expired')
})

test('§22: of 20 machines at once with one token one becomes a node, and the others leave nothing behind', async () => {
  const token = await issueToken()
  const count = async () => {
    const [row] = await gateway.database.sql<{ nodes: number; identities: number }[]>`
      select (select count(*)::int from nodes) as nodes, (select count(*)::int from node_identities) as identities`
    return row ?? { nodes: -1, identities: -1 }
  }
  const before = await count()
  const answers = await Promise.all(Array.from({ length: 20 }, () => enroll(enrollBody(newIdentity(), token))))
  expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array<number>(19).fill(401)])
  expect(await count()).toEqual({ nodes: before.nodes + 1, identities: before.identities + 1 })
})

test('§22: a replayed enrolment is refused; an identity enrols once, and a revoked or deleted one stays dead', async () => {
  const identity = newIdentity()
  const body = enrollBody(identity, await issueToken())
  const nodeId = String((await json(await enroll(body))).node_id)
  expect(await refusal(body)).toMatchObject({ status: 401, code: 'enrollment_token_invalid' })
  const second = await issue()
  const again = () => refusal(enrollBody(identity, String(second.enrollment_token)))
  expect(await again()).toMatchObject({ status: 409, code: 'invalid_state' })
  await gateway.ask('POST', `/v1/admin/nodes/${nodeId}/revoke`, { as: 'admin' })
  expect(await again()).toMatchObject({ status: 409, code: 'invalid_state' })
  expect((await gateway.ask('DELETE', `/v1/admin/nodes/${nodeId}`, { as: 'admin' })).status).toBe(204)
  expect(await again()).toMatchObject({ status: 409, code: 'invalid_state' })
  expect((await enroll(enrollBody(newIdentity(), String(second.enrollment_token)))).status).toBe(201)
})

test('§23: what an agent says of itself no operator changes: its address and its key', async () => {
  const nodeId = String((await json(await enroll(enrollBody(newIdentity(), await issueToken())))).node_id)
  const patch = (body: object) => gateway.ask('PATCH', `/v1/admin/nodes/${nodeId}`, { as: 'operator', json: body })
  for (const body of [{ url: 'http://127.0.0.1:9' }, { api_key: 'k' }]) {
    const response = await patch(body)
    expect([response.status, (await json(response)).code]).toEqual([400, 'invalid_request'])
  }
  const changed = await patch({ name: 'attic', visibility: 'public', node_class: 'cpu', privacy_class: 'public' })
  expect(await json(changed)).toMatchObject({
    name: 'attic',
    visibility: 'public',
    node_class: 'cpu',
    privacy_class: 'public',
  })
})

test('§18: no log line holds a token, an address of a node or a customer', () => {
  const lines = JSON.stringify(gateway.logged())
  expect(lines).toContain('/v1/node-agent/enroll')
  expect(issued.length).toBeGreaterThan(5)
  for (const hidden of [...issued, customerId, '127.0.0.1:9', '10.0.0.1']) expect(lines).not.toContain(hidden)
})

test('§4: guessed tokens count against their address, a good one still passes', async () => {
  await using strict = await scoped(startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '3' }))
  const made = await json(await strict.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'A' } }))
  const issued = await strict.ask('POST', '/v1/admin/enrollment-tokens', {
    as: 'operator',
    json: { ...grant(), customer_id: made.customer_id },
  })
  const token = String((await json(issued)).enrollment_token)
  const guess = () =>
    strict.ask('POST', '/v1/node-agent/enroll', { json: enrollBody(newIdentity(), newToken('enroll')) })
  const statuses: number[] = []
  for (let i = 0; i < 5; i++) statuses.push((await guess()).status)
  expect(statuses).toEqual([401, 401, 401, 429, 429])
  const good = await strict.ask('POST', '/v1/node-agent/enroll', { json: enrollBody(newIdentity(), token) })
  expect(good.status).toBe(201)
})
