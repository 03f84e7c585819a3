import { afterAll, expect, test } from 'bun:test'
import type { AnyElysia } from 'elysia'
import { createOllamaApp } from '../../src/http/ollama/ollama-app.ts'
import { createPeerApp } from '../../src/http/peer-app.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { fixture } from '../support/run/fixture.ts'
import { stopwatch } from '../support/run/stopwatch.ts'
import { waitUntil } from '../support/run/wait-until.ts'

interface Line {
  readonly event: string
  readonly route: string
  readonly code: string | null
  readonly count?: number
}

const beside: AnyElysia[] = []
const opened = (app: AnyElysia): string => {
  beside.push(app.listen({ port: 0, hostname: '127.0.0.1' }))
  return app.server?.url.origin ?? ''
}
afterAll(async () => {
  for (const app of beside) await app.server?.stop(true)
})
const gateway = await fixture(startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '100', SVC_PUBLIC_RPM_PER_IP: '50' }))
const agent = await fixture(startLoneAgent())
const ollamaUrl = opened(createOllamaApp(gateway.gateway, '127.0.0.1'))
const peersUrl = opened(createPeerApp(gateway.gateway))

const strangers = 200
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const post = (headers: Record<string, string>) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: '{}',
})

const ofGateway = () => gateway.logged() as unknown as readonly Line[]
const ofAgent = () =>
  agent
    .log()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line)

const sumOf = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((sum, count) => sum + count, 0)

/** What strangers did, by code, and how many lines that came to. */
async function told(lines: () => readonly Line[], url: string, init: RequestInit): Promise<Record<string, number>> {
  const before = lines().length
  const passedMs = stopwatch()
  for (let at = 0; at < strangers; at++) await (await fetch(url, init)).text()
  const seen = () =>
    lines()
      .slice(before)
      .filter(({ event }) => event === 'request')
  const counts = () => {
    const sums: Record<string, number> = {}
    for (const { code, count = 1 } of seen()) sums[String(code)] = (sums[String(code)] ?? 0) + count
    return sums
  }
  // A line is written after its answer.
  await waitUntil('all are told', () => sumOf(counts()) >= strangers)
  const seconds = Math.ceil(passedMs() / 1_000)
  const kinds = Object.keys(counts()).length
  // Each look at the log above ends the seconds of all kinds, so the lines are counted before the second look.
  expect(seen().length).toBeLessThanOrEqual(kinds * (seconds + 3))
  return counts()
}

test('§18: refused strangers leave one line a second and kind, with their number: the gateway', async () => {
  const chat = `${gateway.url}/v1/api/chat/completions`
  expect(await told(ofGateway, chat, post({}))).toEqual({ missing_credentials: strangers })
  const wrong = post(bearer(`svc_gateway_${'x'.repeat(43)}`))
  expect(await told(ofGateway, chat, wrong)).toEqual({ invalid_api_key: 100, rate_limited: 100 })
  const limited = await told(ofGateway, `${gateway.url}/v1/models`, {})
  expect(Object.keys(limited).sort()).toEqual(['missing_credentials', 'rate_limited'])
  expect(sumOf(limited)).toBe(strangers)
  expect(await told(ofGateway, `${gateway.url}/v1/admin/nodes`, {})).toEqual({ missing_credentials: strangers })
  expect(await told(ofGateway, `${gateway.url}/wp-login.php`, {})).toEqual({ route_not_found: strangers })
  expect(await told(ofGateway, `${gateway.url}/v1//x`, {})).toEqual({ invalid_request: strangers })
})

test('§18: the same for nodes that are none, other gateways that are none, and callers of Ollama’s listener', async () => {
  const tunnel = { headers: { upgrade: 'websocket', 'sec-websocket-protocol': 'svc-tunnel-v1' } }
  const hellos = await told(ofGateway, `${gateway.url}/v1/node-agent/tunnel`, tunnel)
  expect(sumOf(hellos)).toBe(strangers)
  const foreign = await told(ofGateway, `${peersUrl}/v1/peer/nodes/node_x`, post({}))
  expect(Object.values(foreign)).toEqual([strangers])
  expect(await told(ofGateway, `${peersUrl}/v1/peer/own/loads`, {})).toEqual({ invalid_credentials: strangers })
  expect(await told(ofGateway, `${ollamaUrl}/api/tags`, {})).toEqual({ missing_credentials: strangers })
  expect(await told(ofGateway, `${ollamaUrl}/api/chat`, post({}))).toEqual({ missing_credentials: strangers })
})

test('§18: the same for strangers at an agent', async () => {
  const chat = `${agent.node.url}/v1/chat/completions`
  expect(await told(ofAgent, chat, post({}))).toEqual({ missing_credentials: strangers })
  expect(await told(ofAgent, chat, post(bearer('nonsense')))).toEqual({ invalid_credentials: strangers })
  expect(await told(ofAgent, `${agent.node.url}/v1/rerank`, post({}))).toEqual({ missing_credentials: strangers })
  expect(await told(ofAgent, `${agent.node.url}/v1//models`, {})).toEqual({ invalid_request: strangers })
})

test('§18: whom the gateway or the agent knows has a line for each refused request', async () => {
  const before = ofGateway().length
  const made = await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'known' } })
  const { customer_id: id, customer_token: token } = (await made.json()) as Record<string, string>
  const headers = { 'x-svc-customer-id': id ?? '', 'x-svc-customer-token': token ?? '' }
  for (let at = 0; at < 10; at++) {
    expect((await gateway.ask('GET', '/v1/admin/nodes/none', { as: 'viewer' })).status).toBe(404)
    expect((await gateway.ask('GET', '/v1/billing/receipts/none', { headers })).status).toBe(404)
  }
  const lines = () =>
    ofGateway()
      .slice(before)
      .filter(({ event }) => event === 'request')
  await waitUntil('their lines', () => lines().length === 21)
  expect(lines().filter(({ count }) => count !== undefined)).toEqual([])
  const local = post(bearer(agent.localToken))
  const known = ofAgent().length
  for (let at = 0; at < 10; at++) await (await fetch(`${agent.node.url}/v1/chat/completions`, local)).text()
  expect(
    ofAgent()
      .slice(known)
      .map(({ code, count }) => [code, count]),
  ).toEqual(Array(10).fill(['invalid_request', undefined]))
})
