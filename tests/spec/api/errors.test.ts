import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { problemKinds } from '../../../src/errors.ts'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { OpenAiErrorBody, ProblemBody } from '../../../src/protocol/wire/admin/report.ts'
import { sealedNodesPath, sealedOperationPaths } from '../../../src/protocol/wire/inference/sealed.ts'
import { newToken } from '../../../src/secrets.ts'
import { newAccount, newKey } from '../../support/gateways/accounts.ts'
import { type AskOptions, json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const chat = '/v1/api/chat/completions'
const secret = 'the-prompt-nobody-may-see'

const gateway = await fixture(startTestGateway())
const key = await newKey(gateway, (await newAccount(gateway)).id)

interface OpenAiBody {
  readonly error: {
    readonly message: string
    readonly type: string
    readonly param: string | null
    readonly code: string
    readonly svc: { readonly request_id: string; readonly status: number; readonly retryable: boolean }
  }
}

async function openAi(method: string, path: string, options?: AskOptions) {
  const response = await gateway.ask(method, path, options)
  const text = await response.text()
  expect(text).not.toContain(secret)
  const body = JSON.parse(text) as OpenAiBody
  expect([...Value.Errors(OpenAiErrorBody, body)]).toEqual([])
  expect(response.headers.get('content-type')).toStartWith('application/json')
  expect(body.error.svc.status).toBe(response.status)
  expect(body.error.svc.request_id).toBe(response.headers.get('x-request-id') ?? '')
  expect(response.headers.get('cache-control')).toBe('no-store')
  return { response, error: body.error }
}

async function problem(method: string, path: string, options?: AskOptions) {
  const response = await gateway.ask(method, path, options)
  const text = await response.text()
  expect(text).not.toContain(secret)
  const body = JSON.parse(text) as Record<string, unknown> & { code: keyof typeof problemKinds }
  expect([...Value.Errors(ProblemBody, body)]).toEqual([])
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  expect(body).toMatchObject({
    type: `urn:svc:problem:${body.code}`,
    title: problemKinds[body.code].title,
    status: response.status,
    instance: `urn:svc:request:${body.request_id}`,
    request_id: response.headers.get('x-request-id') ?? '',
  })
  expect(response.headers.get('cache-control')).toBe('no-store')
  return { response, body }
}

const authorized = () => ({ authorization: `Bearer ${key}` })
const post = (body: BodyInit, more: Record<string, string> = {}): AskOptions => ({
  body,
  headers: { ...authorized(), 'content-type': 'application/json', ...more },
})

test('§2: chat and model list speak the OpenAI envelope, every other route RFC 9457', async () => {
  const one = await openAi('POST', chat, { json: { messages: secret } })
  expect(one.response.status).toBe(401)
  expect(one.error).toMatchObject({ code: 'missing_credentials', type: 'authentication_error' })
  expect(one.response.headers.get('www-authenticate')).toBe('Bearer realm="svc"')
  expect((await openAi('POST', '/v1/api/models')).error.code).toBe('method_not_allowed')
  const other = await problem('GET', '/v1/admin/nodes')
  expect(other.body.code).toBe('missing_credentials')
  expect(other.response.headers.get('www-authenticate')).toBe('SVC-Admin-Token realm="svc"')
})

test('§2: `type` begins with SVC_PROBLEM_BASE_URL where it is set', async () => {
  await using other = await scoped(startTestGateway({ SVC_PROBLEM_BASE_URL: 'https://errors.example/' }))
  const body = await json(await other.ask('GET', '/v1/admin/nodes'))
  expect([body.type, body.code]).toEqual(['https://errors.example/missing_credentials', 'missing_credentials'])
})

test('§9: svc.job_id is in the log line of its request', async () => {
  const asked = { model: 'nobody-has-it', messages: [{ role: 'user', content: 'x' }], svc: { job_id: 'my-job.7' } }
  const { response } = await openAi('POST', chat, { json: asked, headers: authorized() })
  const id = response.headers.get('x-request-id')
  const line = () => gateway.logged().find(({ request_id }) => request_id === id)
  await waitUntil('the line is there', () => line() !== undefined)
  expect(line()).toMatchObject({ job_id: 'my-job.7', status: 404 })
})

test('§1: an unknown route is 404, another method 405 with Allow, OPTIONS lists the methods', async () => {
  expect((await problem('GET', `/nothing/${secret}`)).body.code).toBe('route_not_found')
  expect((await problem('POST', '/v1/admin/unknown', { as: 'admin' })).response.status).toBe(404)
  const wrong = await problem('PUT', '/v1/admin/customers')
  expect(wrong.response.status).toBe(405)
  expect(wrong.response.headers.get('allow')?.split(', ').sort()).toEqual(['GET', 'HEAD', 'OPTIONS', 'POST'])
  const onChat = await openAi('GET', chat)
  expect(onChat.response.headers.get('allow')).toBe('POST, OPTIONS')
  const options = await gateway.ask('OPTIONS', '/v1/admin/keys/key_x')
  expect(options.status).toBe(204)
  expect(options.headers.get('allow')).toBe('PATCH, DELETE, OPTIONS')
  const probe = await gateway.ask('OPTIONS', '/v1/admin/nodes/probe')
  expect(probe.headers.get('allow')).toBe('POST, OPTIONS')
})

test('§1: HEAD answers as GET does, without the body', async () => {
  const [get, head] = await Promise.all([gateway.ask('GET', '/v1/api'), gateway.ask('HEAD', '/v1/api')])
  expect(head.status).toBe(200)
  expect(await head.text()).toBe('')
  expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'))
  expect((await gateway.ask('HEAD', '/v1/admin/nodes')).status).toBe(401)
})

test('§1: x-request-id on every answer; the one that came in is only kept in the log', async () => {
  const seen = new Set<string>()
  const requestLines = () => gateway.logged().filter(({ event }) => event === 'request')
  for (const [method, path] of [
    ['GET', '/v1/api'],
    ['GET', '/nothing'],
    ['PUT', '/v1/api'],
    ['OPTIONS', '/v1/api'],
    ['GET', '/healthz'],
    ['GET', '/docs'],
    ['GET', '/openapi.json'],
    ['GET', '/v1/admin/nodes'],
    ['POST', chat],
  ] as const) {
    const response = await gateway.ask(method, path, { headers: { 'x-request-id': 'mine-1' } })
    const id = response.headers.get('x-request-id') ?? ''
    expect(id).toMatch(/^req_[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    seen.add(id)
    // Two refused strangers within a second would share a line.
    await waitUntil('its line is there', () => requestLines().some(({ request_id }) => request_id === id))
  }
  expect(seen.size).toBe(9)
  await gateway.ask('GET', '/healthz', { headers: { 'x-request-id': 'a b<script>' } })
  const mine = () => requestLines().filter(({ request_id }) => seen.has(String(request_id)))
  await waitUntil('all lines are there', () => mine().length === seen.size)
  const lines = requestLines()
  expect(lines.filter(({ request_id }) => seen.has(String(request_id))).length).toBe(9)
  for (const line of lines.filter(({ request_id }) => seen.has(String(request_id)))) {
    expect(line.client_request_id).toBe('mine-1')
  }
  expect(JSON.stringify(lines)).not.toContain('<script>')
})

test('§18: one log line per request: template, status, code, latency and a hashed address, nothing else', async () => {
  const response = await gateway.ask('GET', `/v1/admin/nodes/${secret}?token=${secret}`, { as: 'viewer' })
  expect(response.status).toBe(404)
  const id = response.headers.get('x-request-id')
  await waitUntil('the line is there', () => gateway.logged().some(({ request_id }) => request_id === id))
  const lines = gateway.logged().filter(({ request_id }) => request_id === id)
  expect(lines).toHaveLength(1)
  const [line] = lines
  expect(line).toMatchObject({
    event: 'request',
    route: '/v1/admin/nodes/:node_id',
    method: 'GET',
    status: 404,
    code: 'node_not_found',
    role: 'viewer',
  })
  expect(Object.keys(line ?? {}).sort()).toEqual(
    ['code', 'event', 'ip', 'latency_ms', 'level', 'method', 'request_id', 'role', 'route', 'status', 'ts'].sort(),
  )
  const all = JSON.stringify(gateway.logged())
  expect(all).not.toContain(secret)
  expect(all).not.toContain('127.0.0.1')
  expect(all).not.toContain(gateway.tokens.viewer)
})

test('§3: bodies that are no JSON, too deep, of another type or too long, in the envelope of their route', async () => {
  const deep = '['.repeat(129) + ']'.repeat(129)
  const cases = [
    [post(`{"model": "${secret}`), 'invalid_json', 400],
    [post(''), 'invalid_json', 400],
    [post(`{"messages":${deep}}`), 'invalid_json', 400],
    [post('['.repeat(200_000)), 'invalid_json', 400],
    [post(secret, { 'content-type': 'text/plain' }), 'unsupported_media_type', 415],
    [post('{}', { 'content-type': 'application/json; charset=utf-8' }), 'invalid_request', 400],
    [post(`{"messages":"${secret}"}`), 'invalid_request', 400],
    [post(`[]`), 'invalid_request', 400],
    [post(`"${'x'.repeat(8 * 1024 * 1024)}"`), 'payload_too_large', 413],
  ] as const
  for (const [options, code, status] of cases) {
    const { response, error } = await openAi('POST', chat, options)
    expect([response.status, error.code]).toEqual([status, code])
    expect(response.headers.get('x-should-retry')).toBe('false')
  }
  const long = await problem('POST', '/v1/admin/customers', {
    as: 'admin',
    json: { display_name: secret, reason: 'x'.repeat(17_000) },
  })
  expect(long.body.code).toBe('payload_too_large')
})

test('§3: a body without a length is read up to the limit and no further', async () => {
  let sent = 0
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 64 * 1024
      controller.enqueue(new Uint8Array(64 * 1024).fill(0x20))
    },
  })
  const { response, error } = await openAi('POST', chat, post(endless))
  expect([response.status, error.code]).toEqual([413, 'payload_too_large'])
  expect(sent).toBeLessThan(64 * 1024 * 1024)
  const short = new Blob(['{"messages":1}']).stream()
  expect((await openAi('POST', chat, post(short))).error.code).toBe('invalid_request')
})

test('§2: param is a dotted path, and a schema violation names the field, never the value', async () => {
  const body = { model: 'm', messages: [{ role: secret, content: 'x' }] }
  const { error } = await openAi('POST', chat, { json: body, headers: authorized() })
  expect(error.param).toBe('messages[0].role')
  const strict = await problem('POST', '/v1/admin/customers', {
    as: 'admin',
    json: { display_name: 'A', admin: secret, gateway_policy: { min_privacy_class: secret } },
  })
  expect(strict.body.code).toBe('invalid_request')
  const faults = strict.body.errors as { pointer: string; code: string }[]
  expect(faults.map(({ pointer }) => pointer)).toContain('/admin')
  expect(faults.find(({ pointer }) => pointer === '/admin')?.code).toBe('unknown_field')
  expect(faults.map(({ pointer }) => pointer)).toContain('/gateway_policy/min_privacy_class')
})

test('§1: a duplicate known parameter and an integer that is not digits are 400, unknown ones are ignored', async () => {
  for (const query of ['limit=1&limit=2', 'limit=1e0', 'limit=0', 'limit=5001', 'limit=-1', 'limit=', 'limit=%2B1']) {
    const { response, body } = await problem('GET', `/v1/admin/nodes?${query}`, { as: 'viewer' })
    expect([query, response.status, body.code]).toEqual([query, 400, 'invalid_parameter'])
    expect(body.errors).toMatchObject([{ parameter: 'limit' }])
  }
  expect((await gateway.ask('GET', '/v1/admin/nodes?limit=007&x=1&x=2', { as: 'viewer' })).status).toBe(200)
})

test('§27: an id in the path that can be none is the 404 of its resource, on every route', async () => {
  const { headers: customer } = await newAccount(gateway)
  const codes: Readonly<Record<string, string>> = {
    customer_id: 'customer_not_found',
    key_id: 'key_not_found',
    node_id: 'node_not_found',
    token_id: 'enrollment_token_not_found',
    admin_id: 'admin_not_found',
    session_id: 'session_not_found',
    join_id: 'join_not_found',
    command_id: 'command_not_found',
    batch_id: 'batch_not_found',
    receipt_hash: 'receipt_not_found',
    webhook_id: 'webhook_not_found',
    job_id: 'job_not_found',
    machine: 'machine_not_found',
    request_id: 'request_not_found',
  }
  // What a node signs says of an unknown node what it says of a wrong signature (§15); the other has a proof of its own.
  const apart = [
    '/v1/nodes/:node_id/payouts',
    '/v1/nodes/:node_id/payouts/proofs',
    '/v1/nodes/:node_id/alarms',
    '/v1/nodes/:node_id/payee',
    '/v1/peer/nodes/:node_id',
    // These refuse in the envelope of their dialect, see tests/spec/sealed/relay.test.ts.
    ...sealedOperationPaths.map((path) => `${sealedNodesPath}/:node_id${path}`),
  ]
  const named = new RouteTable(gateway.app).rows.filter(
    ({ path }) => /:\w+(?:_id|_hash)|:machine/.test(path) && !apart.includes(path),
  )
  expect(named.length).toBeGreaterThan(25)
  for (const { method, path } of named) {
    const name = /:(\w+)/.exec(path)?.[1] ?? ''
    for (const id of ['%7E', 'a%20b', 'x'.repeat(65), '..;', '%C3%A4', '-%2B']) {
      const { response, body } = await problem(method, path.replace(`:${name}`, id), {
        ...(path.startsWith('/v1/admin/') ? { as: 'admin' } : { headers: customer }),
        ...(['POST', 'PATCH'].includes(method) ? { json: {} } : {}),
      })
      expect([method, path, id, response.status, body.code]).toEqual([method, path, id, 404, codes[name] ?? ''])
    }
  }
})

test('§4: who is it comes before everything else', async () => {
  const broken = { body: '{', headers: { 'content-type': 'text/plain' } }
  expect((await problem('POST', '/v1/admin/customers', broken)).response.status).toBe(401)
  expect((await problem('GET', '/v1/admin/nodes?limit=x')).response.status).toBe(401)
  expect((await problem('POST', '/v1/admin/customers', { ...broken, as: 'viewer' })).response.status).toBe(403)
  expect((await problem('GET', '/v1/admin/customers/a%20b', { as: 'viewer' })).response.status).toBe(403)
  expect((await openAi('POST', chat, broken)).response.status).toBe(401)
})

test('§4: after 20 failures a minute further failures of that address get 429, a valid credential still passes', async () => {
  await using strict = await scoped(
    startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '3', SVC_AUTH_LOCKOUT_MS: '60000' }),
  )
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) {
    const wrong = { 'x-svc-admin-token': newToken('admin') }
    statuses.push((await strict.ask('GET', '/v1/admin/nodes', { headers: wrong })).status)
  }
  expect(statuses).toEqual([401, 401, 401, 429, 429, 429])
  const locked = await strict.ask('GET', '/v1/api/models', { headers: { authorization: 'Bearer nonsense' } })
  expect(locked.status).toBe(429)
  expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(50)
  expect((await strict.ask('GET', '/v1/admin/nodes', { as: 'viewer' })).status).toBe(200)
  expect((await strict.ask('GET', '/v1/api/models')).status).toBe(200)
})

test('§17: public reads and admin requests are limited, with RateLimit headers and Retry-After', async () => {
  await using strict = await scoped(startTestGateway({ SVC_PUBLIC_RPM_PER_IP: '5', SVC_ADMIN_RPM_PER_TOKEN: '5' }))
  const first = await strict.ask('GET', '/v1/api')
  expect(first.headers.get('ratelimit-policy')).toBe('"public";q=5;w=60')
  expect(first.headers.get('ratelimit')).toMatch(/^"public";r=\d+;t=\d+$/)
  for (const ask of [
    () => strict.ask('GET', '/v1/api/models'),
    () => strict.ask('GET', '/v1/admin/nodes', { as: 'viewer' }),
  ]) {
    const answers: Response[] = []
    for (let i = 0; i < 6; i++) answers.push(await ask())
    const refused = answers.find(({ status }) => status === 429)
    expect(refused).toBeDefined()
    const t = /^"\w+";r=0;t=(\d+)$/.exec(refused?.headers.get('ratelimit') ?? '')?.[1]
    expect(Number(t)).toBeGreaterThanOrEqual(1)
    expect(refused?.headers.get('retry-after')).toBe(t ?? '')
    expect(refused?.headers.get('ratelimit-policy')).toContain(';q=5;w=60')
  }
  expect((await strict.ask('GET', '/v1/admin/nodes', { as: 'operator' })).status).toBe(200)
  expect((await strict.ask('GET', '/healthz')).status).toBe(200)
})
