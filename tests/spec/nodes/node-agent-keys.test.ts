import { expect, test } from 'bun:test'
import type { SigningKey } from '../../../src/protocol/signing/ed25519.ts'
import { enrollMessage, keyVerifyMessage, newNonce } from '../../../src/protocol/signing/signatures.ts'
import { newToken } from '../../../src/secrets.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken } from '../../support/nodes/agents.ts'
import { enrollBody, newIdentity } from '../../support/nodes/enrolling.ts'
import { fixture } from '../../support/run/fixture.ts'

const identity = newIdentity()

const enrol = async (customerId: string, as: SigningKey) => {
  const { enrollment_token: token } = await enrollmentToken(gateway, customerId)
  const response = await fetch(`${gateway.url}/v1/node-agent/enroll`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(enrollBody(as, token)),
  })
  return ((await response.json()) as { node_id: string }).node_id
}

const gateway = await fixture(startTestGateway({ env: { SVC_AUTH_FAILURES_PER_MINUTE: '10000' } }))
const owner = await gateway.customer()
const nodeId = await enrol(owner.customerId, identity)

interface Question {
  readonly key: string
  readonly model?: string
  readonly node?: string
  readonly signer?: SigningKey
  readonly timestamp?: number
  readonly nonce?: string
  /** Sent instead of the body that was signed. */
  readonly sent?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly message?: (usual: string) => string
}

const now = () => Math.floor(Date.now() / 1_000)

function verify(question: Question): Promise<Response> {
  const { key, model = 'm-1', node = nodeId, signer = identity, timestamp = now(), nonce = newNonce() } = question
  const body = JSON.stringify({ gateway_key: key, model })
  const usual = keyVerifyMessage(node, timestamp, nonce, body)
  return fetch(`${gateway.url}/v1/node-agent/keys/verify`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-svc-node-id': node,
      'x-svc-node-timestamp': String(timestamp),
      'x-svc-node-nonce': nonce,
      'x-svc-node-signature': signer.sign(question.message?.(usual) ?? usual),
      ...question.headers,
    },
    body: question.sent ?? body,
  })
}
const valid = async (question: Question) => {
  const response = await verify(question)
  expect(response.status).toBe(200)
  return ((await response.json()) as { valid: boolean }).valid
}
const refusal = async (question: Question) => {
  const response = await verify(question)
  return [response.status, ((await response.json()) as { code: string }).code]
}
const keyOf = async (more: object): Promise<string> => {
  const path = `/v1/admin/customers/${owner.customerId}/keys`
  return (await gateway.admin<{ gateway_key: string }>('POST', path, { name: 'k', ...more })).gateway_key
}

test("§12: true for a live key of the node's owner", async () => {
  expect(await valid({ key: owner.key })).toBe(true)
})

test("§12: false for a stranger's key, an unknown, a mistyped or another kind of credential", async () => {
  const stranger = await gateway.customer()
  const others = [
    stranger.key,
    newToken('gateway'),
    `${owner.key.slice(0, -1)}!`,
    owner.customerToken,
    gateway.tokens.admin,
    '',
  ]
  for (const key of others) expect(await valid({ key })).toBe(false)
})

test('§12: false when the node or the model is outside the key, true inside', async () => {
  const other = newIdentity()
  const otherNode = await enrol(owner.customerId, other)
  const scoped = await keyOf({ node_scope: [otherNode] })
  expect(await valid({ key: scoped })).toBe(false)
  expect(await valid({ key: scoped, node: otherNode, signer: other })).toBe(true)
  const limited = await keyOf({ model_policy: { allowed_models: ['m-*'], denied_models: ['m-9'] } })
  expect(await Promise.all(['m-1', 'm-9', 'x'].map((model) => valid({ key: limited, model })))).toEqual([
    true,
    false,
    false,
  ])
  const tier = await keyOf({ model_policy: { route_tiers: ['cpu'] } })
  expect(await valid({ key: tier })).toBe(false)
})

test('§9: a model that pools under another name is judged by all its names', async () => {
  await gateway.admin('PUT', '/v1/admin/models', { id: 'public-name', aliases: ['local-name'] })
  const key = await keyOf({ model_policy: { allowed_models: ['public-name'] } })
  expect(await valid({ key, model: 'local-name' })).toBe(true)
  expect(await valid({ key, model: 'm-1' })).toBe(false)
})

test('§4: false at once for a revoked key and for a suspended account', async () => {
  const passing = await gateway.customer()
  const machine = newIdentity()
  const node = await enrol(passing.customerId, machine)
  const question = { key: passing.key, node, signer: machine }
  expect(await valid(question)).toBe(true)
  const path = `/v1/admin/customers/${passing.customerId}`
  await gateway.admin('PATCH', path, { account_status: 'suspended' })
  expect(await valid(question)).toBe(false)
  await gateway.admin('PATCH', path, { account_status: 'active' })
  expect(await valid(question)).toBe(true)
  await gateway.admin('DELETE', `/v1/admin/keys/${passing.keyId}`)
  expect(await valid(question)).toBe(false)
})

test('§15: only the node itself may ask, just now, and once', async () => {
  const key = owner.key
  const other = newIdentity()
  expect(await refusal({ key, signer: other })).toEqual([401, 'signature_invalid'])
  expect(await refusal({ key, node: 'node_none' })).toEqual([401, 'signature_invalid'])
  expect(await refusal({ key, sent: JSON.stringify({ gateway_key: key, model: 'm-2' }) })).toEqual([
    401,
    'signature_invalid',
  ])
  expect(await refusal({ key, message: () => enrollMessage({}) })).toEqual([401, 'signature_invalid'])
  for (const off of [-302, 302])
    expect(await refusal({ key, timestamp: now() + off })).toEqual([401, 'signature_expired'])
  for (const off of [-298, 298]) expect(await valid({ key, timestamp: now() + off })).toBe(true)
  const nonce = newNonce()
  expect(await valid({ key, nonce })).toBe(true)
  expect(await refusal({ key, nonce })).toEqual([401, 'nonce_reused'])
  const together = await Promise.all(
    [1, 2, 3, 4]
      .map(() => newNonce())
      .flatMap((one) => [one, one])
      .map((one) => verify({ key, nonce: one })),
  )
  expect(together.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 401, 401, 401, 401])
})

test('§15: headers of another form are 400, missing ones 401, and so is a body that was not meant', async () => {
  const key = owner.key
  for (const headers of [
    { 'x-svc-node-id': 'a:b' },
    { 'x-svc-node-timestamp': '1e9' },
    { 'x-svc-node-nonce': 'x' },
    { 'x-svc-node-signature': 'x' },
  ]) {
    expect(await refusal({ key, headers })).toEqual([400, 'signature_malformed'])
  }
  const bare = await fetch(`${gateway.url}/v1/node-agent/keys/verify`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ gateway_key: key, model: 'm-1' }),
  })
  expect([bare.status, ((await bare.json()) as { code: string }).code]).toEqual([401, 'missing_credentials'])
  expect(await refusal({ key, sent: '{"gateway_key":1}' })).toEqual([400, 'invalid_request'])
})

test('§22: a revoked node asks in vain', async () => {
  const machine = newIdentity()
  const node = await enrol(owner.customerId, machine)
  const question = { key: owner.key, node, signer: machine }
  expect(await valid(question)).toBe(true)
  await gateway.admin('POST', `/v1/admin/nodes/${node}/revoke`)
  expect(await refusal(question)).toEqual([401, 'signature_invalid'])
})
