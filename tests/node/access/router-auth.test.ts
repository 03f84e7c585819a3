import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { headers } from '../../../src/brand.ts'
import { NonceMemory } from '../../../src/node/access/nonces.ts'
import { createRouterAuth } from '../../../src/node/access/router-auth.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { formatRouterSignature, newNonce, routerMessage } from '../../../src/protocol/signing/signatures.ts'
import { type LoneAgent, type SignOptions, startLoneAgent } from '../../support/nodes/lone-agent.ts'

const nowMs = 1_795_190_400_000
const key = signingKey(Uint8Array.from({ length: 32 }, (_, i) => 0x11 + i))
const router = [{ kid: key.keyId, public_key_ed25519: key.publicKey }]

function headerAt(timestamp: number, nonce = 'A'.repeat(22)): string {
  const request = { nodeId: 'node_0001', method: 'POST', path: '/v1/chat/completions', body: '{}' }
  const signature = key.sign(routerMessage(request, { timestamp, nonce }))
  return formatRouterSignature({ kid: key.keyId, timestamp, nonce, signature })
}
const verdictAt = (offsetS: number) =>
  createRouterAuth({ nodeId: 'node_0001', keys: router, now: () => nowMs }).verify(headerAt(nowMs / 1_000 + offsetS), {
    method: 'POST',
    path: '/v1/chat/completions',
    body: '{}',
  })

test('§22: the vector is valid at its moment, and 300 s before and after', () => {
  expect(headerAt(1795190400)).toContain('sig=z7r3TEdG_nb8YSgrq5uhKwwpT7MT6Tg2MQA1O-TfpyIZBc3Wc1Xc4czhRiqtJSxt8HQjQ__')
  expect([-301, -300, 0, 300, 301].map(verdictAt)).toEqual([
    'signature_expired',
    'valid',
    'valid',
    'valid',
    'signature_expired',
  ])
})

test('§22: a nonce is good once for as long as its time stamp is, and the memory of it is bounded', () => {
  const second = 1_795_190_400
  const nonces = new NonceMemory(3)
  expect(nonces.use('a', second + 300, nowMs)).toBe(true)
  expect(nonces.use('a', second + 300, nowMs + 599_000)).toBe(false)
  expect(nonces.use('b', second, nowMs)).toBe(true)
  expect(nonces.use('c', second, nowMs)).toBe(true)
  expect(nonces.use('d', second, nowMs)).toBe(false)
  expect(nonces.size).toBe(3)
  // Once it is no longer fresh nothing need be remembered of it.
  expect(nonces.use('e', second + 700, nowMs + 700_000)).toBe(true)
  expect(nonces.size).toBe(1)
})

describe('§22: what is not the gateway’s own request of this moment is refused', () => {
  let agent: LoneAgent
  beforeAll(async () => {
    agent = await startLoneAgent()
  })
  afterAll(() => agent.remove())

  const seconds = () => Math.floor(Date.now() / 1_000)
  const stranger = signingKey(crypto.getRandomValues(new Uint8Array(32)))
  const cases: readonly (readonly [string, () => SignOptions])[] = [
    ['another key under the router’s name', () => ({ key: stranger })],
    ['a key that nobody knows', () => ({ key: stranger, kid: stranger.keyId })],
    ['301 s old', () => ({ timestamp: seconds() - 301 })],
    ['more than 300 s ahead', () => ({ timestamp: seconds() + 400 })],
    ['for another node', () => ({ nodeId: 'node_0002' })],
    ['for another method', () => ({ method: 'PUT' })],
    ['for another path', () => ({ path: '/v1/models' })],
    ['for another query', () => ({ path: '/v1/chat/completions?x=1' })],
    ['over another body', () => ({ body: '{}' })],
  ]
  test.each(cases)('%s', async (_, options) => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
    const beforeMs = Date.now()
    const response = await agent.call('POST', '/v1/chat/completions', body, options())
    expect(response.status).toBe(401)
    const { error } = (await response.json()) as { readonly error: { readonly code: string; readonly message: string } }
    expect(error.code).toBe('invalid_credentials')
    // A 401 names the server's time.
    const named = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/.exec(error.message)?.[0] ?? ''
    expect(Date.parse(named)).toBeGreaterThanOrEqual(beforeMs)
    expect(Date.parse(named)).toBeLessThanOrEqual(Date.now())
  })

  test('a nonce that was used', async () => {
    const nonce = newNonce()
    const timestamp = seconds()
    expect((await agent.call('GET', '/v1/models', null, { nonce, timestamp })).status).toBe(200)
    expect((await agent.call('GET', '/v1/models', null, { nonce, timestamp })).status).toBe(401)
    expect((await agent.call('GET', '/v1/models', null, { timestamp })).status).toBe(200)
  })

  test('no credential at all, or a signature that is none', async () => {
    const bare = await fetch(`${agent.node.url}/v1/models`)
    expect([bare.status, ((await bare.json()) as { error: { code: string } }).error.code]).toEqual([
      401,
      'missing_credentials',
    ])
    const odd = await fetch(`${agent.node.url}/v1/models`, { headers: { [headers.routerSignature]: 'kid=x' } })
    expect(odd.status).toBe(401)
  })

  test('a status only the gateway may see, and it names its nonce', async () => {
    const token = (JSON.parse(await Bun.file(`${agent.dataDir}/local-token.json`).text()) as { local_token: string })
      .local_token
    const local = { authorization: `Bearer ${token}` }
    expect((await fetch(`${agent.node.url}/v1/models`, { headers: local })).status).toBe(200)
    expect((await fetch(`${agent.node.url}/svc/v1/status`, { headers: local })).status).toBe(401)
    expect((await agent.call('GET', '/svc/v1/status')).status).toBe(400)
  })
})
