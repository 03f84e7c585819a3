import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { SigningKey } from '../../../src/protocol/signing/ed25519.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { enrollBody, newIdentity } from '../../support/nodes/enrolling.ts'
import { greet, handshake, helloHeaders } from '../../support/nodes/hello.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const identity = newIdentity()

async function enroll(key: SigningKey): Promise<Record<string, unknown>> {
  const customer = await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'A' } })
  const asked = {
    customer_id: (await json(customer)).customer_id,
    name: 'desk',
    visibility: 'private',
    node_class: 'gpu',
    privacy_class: 'private',
  }
  const issued = await gateway.ask('POST', '/v1/admin/enrollment-tokens', { as: 'operator', json: asked })
  const body = enrollBody(key, String((await json(issued)).enrollment_token))
  return json(await gateway.ask('POST', '/v1/node-agent/enroll', { json: body }))
}

const gateway = await fixture(
  startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000', SVC_POLL_INTERVAL_MS: '60000' }),
)
const enrolled = await enroll(identity)
const nodeId = String(enrolled.node_id)
const routerKid = (enrolled.router_public_keys as { kid: string }[])[0]?.kid ?? ''

const hello = (...more: Parameters<typeof helloHeaders> extends [unknown, unknown, unknown, ...infer R] ? R : never) =>
  helloHeaders(identity, nodeId, routerKid, ...more)
const now = () => Math.floor(Date.now() / 1_000)
const opened = () => gateway.logged().filter(({ event }) => event === 'tunnel_opened').length

async function refused(headers: Readonly<Record<string, string>>): Promise<void> {
  const before = opened()
  const answer = await greet(gateway.url, { ...handshake, ...headers })
  expect(answer.status).toBe(401)
  expect(answer.headers).toContain('content-type: application/problem+json')
  const problem = JSON.parse(answer.body) as Record<string, unknown>
  expect(problem).toMatchObject({ code: 'tunnel_auth_failed', status: 401 })
  expect(opened()).toBe(before)
}

test('§22: a signed hello becomes a WebSocket of svc-tunnel-v1, and the node is told of its requests', async () => {
  const before = opened()
  const answer = await greet(gateway.url, { ...handshake, ...hello() })
  expect(answer.status).toBe(101)
  expect(answer.headers).toContain('sec-websocket-protocol: svc-tunnel-v1')
  expect(answer.headers).toContain('x-request-id: req_')
  await waitUntil('the tunnel in the log', () => opened() === before + 1)
})

describe('§22: a hello that is refused, before any upgrade', () => {
  test('a clock that is off by 301 s, either way; by 299 s is fine', async () => {
    for (const off of [-301, 302]) await refused(hello({ timestamp: now() + off }))
    for (const off of [-298, 298]) {
      expect((await greet(gateway.url, { ...handshake, ...hello({ timestamp: now() + off }) })).status).toBe(101)
    }
  })

  test('the same hello a second time, and another hello with its nonce', async () => {
    const headers = hello()
    expect((await greet(gateway.url, { ...handshake, ...headers })).status).toBe(101)
    await refused(headers)
    await refused(hello({ nonce: headers['x-svc-node-nonce'] ?? '' }))
  })

  test('a nonce is used up by the one that signed it, not by a stranger', async () => {
    const headers = hello()
    await refused({ ...headers, 'x-svc-node-signature': 'A'.repeat(86) })
    expect((await greet(gateway.url, { ...handshake, ...headers })).status).toBe(101)
  })

  test('the key of another, an unknown node, another router', async () => {
    await refused(helloHeaders(newIdentity(), nodeId, routerKid))
    await refused(helloHeaders(identity, 'node_00000000000000000000000000', routerKid))
    await refused(helloHeaders(identity, nodeId, 'another-router-key'))
  })

  test('signed for another node, time or nonce than is said', async () => {
    for (const [name, value] of [
      ['x-svc-node-timestamp', String(now() - 1)],
      ['x-svc-node-nonce', 'B'.repeat(22)],
      ['x-svc-node-id', 'node_other'],
    ] as const) {
      await refused({ ...hello(), [name]: value })
    }
  })

  test('every header missing, empty, cut short and too long', async () => {
    const whole = hello()
    for (const name of Object.keys(whole)) {
      const { [name]: value = '', ...rest } = hello()
      await refused(rest)
      for (const changed of ['', value.slice(0, -1), `${value}A`, value.repeat(30)]) {
        await refused({ ...rest, [name]: changed })
      }
    }
  })

  test('random headers', async () => {
    const value = fc.stringMatching(/^[\x21-\x7e]{0,90}$/)
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...Object.keys(hello())), value, (name, text) =>
        refused({ ...hello(), [name]: text }),
      ),
      { numRuns: 100 },
    )
  })

  test('a revoked node', async () => {
    const lost = newIdentity()
    const enrolled = await enroll(lost)
    const lostId = String(enrolled.node_id)
    expect((await greet(gateway.url, { ...handshake, ...helloHeaders(lost, lostId, routerKid) })).status).toBe(101)
    expect((await gateway.ask('POST', `/v1/admin/nodes/${lostId}/revoke`, { as: 'admin' })).status).toBe(200)
    await refused(helloHeaders(lost, lostId, routerKid))
  })
})

test('§18: refused hellos are counted by what was wrong with them, open tunnels as they are', async () => {
  const counted = async (name: string) => {
    const token = { authorization: `Bearer ${gateway.tokens.viewer}` }
    const text = await (await gateway.ask('GET', '/metrics', { headers: token })).text()
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1] ?? 0,
    )
  }
  const code = (value: string) => `svc_tunnel_hellos_refused_total{code="${value}"}`
  const twice = hello()
  expect((await greet(gateway.url, { ...handshake, ...twice })).status).toBe(101)
  const wrong = {
    signature_invalid: helloHeaders(newIdentity(), nodeId, routerKid),
    signature_expired: hello({ timestamp: now() - 302 }),
    nonce_reused: twice,
    malformed: { ...hello(), 'x-svc-node-nonce': 'short' },
  }
  for (const [name, headers] of Object.entries(wrong)) {
    const before = await counted(code(name))
    await refused(headers)
    expect(await counted(code(name))).toBe(before + 1)
  }
  await waitUntil('the tunnels of the greetings are gone', async () => (await counted('svc_tunnels')) === 0)
  expect(await counted('svc_tunnel_streams')).toBe(0)
})

describe('§22: what is no tunnel', () => {
  test('a plain GET, another protocol', async () => {
    for (const more of [{ upgrade: 'h2c' }, { 'sec-websocket-protocol': 'chat' }, { 'sec-websocket-protocol': '' }]) {
      const answer = await greet(gateway.url, { ...handshake, ...hello(), ...more })
      expect(answer.status).toBe(400)
      expect(JSON.parse(answer.body)).toMatchObject({ code: 'invalid_request' })
    }
  })

  test('a broken handshake does not open a tunnel', async () => {
    const { 'sec-websocket-key': _, ...keyless } = handshake
    const before = opened()
    expect((await greet(gateway.url, { ...keyless, ...hello() })).status).toBe(400)
    expect(opened()).toBe(before)
  })
})

test('§22: a gateway that stops takes no new tunnels', async () => {
  await gateway.gateway.handOver()
  const answer = await greet(gateway.url, { ...handshake, ...hello() })
  expect(answer.status).toBe(503)
  expect(JSON.parse(answer.body)).toMatchObject({ code: 'service_unavailable' })
})
