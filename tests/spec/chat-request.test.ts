import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { FakeNode } from '../../src/fake-node/fake-node.ts'
import { newToken } from '../../src/secrets.ts'
import { type ExpectedRefusal, expectRefusal } from '../support/chat-refusal.ts'
import { nodeAt, startFakeNodes } from '../support/fake-nodes.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateway.ts'

const path = '/v1/api/chat/completions'
/** Stands in every prompt; no answer to a refused request may hold it. */
const secret = 'the-prompt-nobody-may-see'
const messages = [{ role: 'user', content: secret }]
const contextLength = 8_192

let gateway: TestGateway
let nodes: readonly FakeNode[] = []
let own: FakeNode
let customer: TestCustomer
let other: TestCustomer
let ownNodeId = ''
let secondNodeId = ''
let foreignNodeId = ''
let profileId = ''
let foreignProfileId = ''

beforeAll(async () => {
  gateway = await startTestGateway({
    env: { SVC_QUEUE_WAIT_MS: '50', SVC_TTFT_TIMEOUT_MS: '1000', SVC_AUTH_FAILURES_PER_MINUTE: '10000' },
  })
  customer = await gateway.customer()
  other = await gateway.customer()
  nodes = startFakeNodes(5, (at) =>
    at === 0
      ? { models: ['m', 'stays'], contextLength }
      : at === 1
        ? { models: ['m', 'gone'] }
        : at === 2
          ? { models: ['theirs'] }
          : at === 3
            ? { models: ['public'] }
            : { models: ['one-slot'], speaks: 'llama.cpp', slots: 1 },
  )
  own = nodeAt(nodes, 0)
  const owned = { customerId: customer.customerId }
  const ids = await Promise.all([
    gateway.node(own.url, owned),
    gateway.node(nodeAt(nodes, 1).url, owned),
    gateway.node(nodeAt(nodes, 2).url, { customerId: other.customerId }),
    gateway.node(nodeAt(nodes, 3).url, { customerId: other.customerId, visibility: 'public', privacyClass: 'public' }),
    gateway.node(nodeAt(nodes, 4).url, owned),
  ])
  ;[ownNodeId = '', secondNodeId = '', foreignNodeId = ''] = ids
  profileId = await profileOf(ownNodeId, 'm')
  foreignProfileId = await profileOf(foreignNodeId, 'theirs')
})
afterAll(async () => {
  for (const node of nodes) node.stop()
  await gateway.stop()
})

interface ShownNode {
  readonly state: string
  readonly runtimes: readonly {
    readonly models: readonly { readonly model_profile_id: string; readonly model: string }[]
  }[]
}

async function profileOf(nodeId: string, model: string): Promise<string> {
  const shown = await gateway.admin<ShownNode>('GET', `/v1/admin/nodes/${nodeId}`)
  return shown.runtimes.flatMap(({ models }) => models).find((entry) => entry.model === model)?.model_profile_id ?? ''
}

interface Ask {
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: string
  readonly raw?: BodyInit
}

/** `body` over a valid request; a field that is undefined is left out. */
function ask(body: object = {}, { key = customer.key, headers = {}, query = '', raw }: Ask = {}): Promise<Response> {
  return fetch(gateway.url + path + query, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: raw ?? JSON.stringify({ model: 'm', messages, ...body }),
  })
}

const refused = (response: Response, expected: ExpectedRefusal) => expectRefusal(response, expected, secret)
const bad = (code: string, param?: string | null): ExpectedRefusal => ({
  status: 400,
  code,
  retry: false,
  ...(param === undefined ? {} : { param }),
})
const invalid = (param?: string) => bad('invalid_request', param)

async function accepted(body: object, more?: Ask): Promise<Record<string, unknown>> {
  const response = await ask(body, more)
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  await response.text()
  const received = [...nodes]
    .flatMap(({ requests }) => requests)
    .sort((a, b) => a.atMs - b.atMs)
    .at(-1)
  return received?.body as Record<string, unknown>
}

describe('§3: bodies that are none', () => {
  const deep = (levels: number) =>
    `{"model":"m","messages":[{"role":"user","content":${'['.repeat(levels)}${']'.repeat(levels)}}]}`
  test.each([
    ['half a body', `{"model":"m","messages":"${secret}`, bad('invalid_json', null)],
    ['empty', '', bad('invalid_json', null)],
    ['two bodies', '{}{}', bad('invalid_json', null)],
    ['65 levels', deep(62), bad('invalid_json', null)],
    ['text', `"${secret}"`, invalid()],
    ['a list', '[]', invalid()],
    ['null', 'null', invalid()],
  ] as const)('%s', async (_name, raw, expected) => {
    await refused(await ask({}, { raw }), expected)
  })

  test('64 levels are not too deep', async () => {
    expect((await ask({}, { raw: deep(61) })).status).toBe(200)
  })

  test.each([
    ['text/plain', { 'content-type': 'text/plain' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['almost JSON', { 'content-type': 'application/json-seq' }],
    ['compressed', { 'content-encoding': 'gzip' }],
  ] as const)('415: %s', async (_name, headers) => {
    await refused(await ask({}, { headers }), { status: 415, code: 'unsupported_media_type', retry: false })
  })

  test('a charset is fine', async () => {
    expect((await ask({}, { headers: { 'content-type': 'Application/JSON; charset=utf-8' } })).status).toBe(200)
  })

  test('413: a body over 8 MiB, and just below it none', async () => {
    const size = 8 * 1024 * 1024
    const frame = JSON.stringify({ model: 'unknown', messages: [{ role: 'user', content: '' }] })
    const fill = (bytes: number) => frame.replace('"content":""', `"content":"${'x'.repeat(bytes - frame.length)}"`)
    await refused(await ask({}, { raw: fill(size + 1) }), { status: 413, code: 'payload_too_large', retry: false })
    const fits = await ask({}, { raw: fill(size) })
    expect(fits.status).toBe(404)
    await fits.text()
  })

  test('405 with Allow on another method, in the envelope of chat', async () => {
    const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${customer.key}` } })
    const { headers } = await refused(response, { status: 405, code: 'method_not_allowed', retry: false })
    expect(headers.get('allow')).toBe('POST, OPTIONS')
  })
})

describe('§5: bounds, at their edges', () => {
  const within: readonly (readonly [string, object])[] = [
    ['max_tokens 1', { max_tokens: 1 }],
    ['max_tokens 1 048 576', { max_tokens: 1_048_576 }],
    ['max_completion_tokens alone', { max_completion_tokens: 5 }],
    ['max_tokens and its alias agree', { max_tokens: 5, max_completion_tokens: 5 }],
    ['temperature 0', { temperature: 0 }],
    ['temperature 2', { temperature: 2 }],
    ['top_p just above 0', { top_p: 1e-9 }],
    ['top_p 1', { top_p: 1 }],
    ['n 1', { n: 1 }],
    ['stop is anything', { stop: { any: ['thing', 1, null] } }],
    [
      'null for what is optional',
      { max_tokens: null, temperature: null, top_p: null, n: null, stream: null, stop: null },
    ],
    ['roles', { messages: ['system', 'user', 'assistant', 'tool'].map((role) => ({ role, content: 'x' })) }],
    ...[null, '', [], {}, 7, false, [{ type: 'text', text: 'x' }]].map(
      (content) => [`content ${JSON.stringify(content)}`, { messages: [{ role: 'user', content }] }] as const,
    ),
    ['svc empty', { svc: {} }],
    ['svc.job_id of 64 characters', { svc: { job_id: `A.b_-${'9'.repeat(59)}` } }],
    ['svc.max_price_wei of free work is not looked at', { svc: { max_price_wei: 'a lot' } }],
    ['svc.dispatch_mode pooled_sync', { svc: { dispatch_mode: 'pooled_sync' } }],
    ['unknown keys of svc are ignored', { svc: { colour: 'red', nested: { node: 1 } } }],
  ]
  test.each(within.map((row) => [...row] as const))('taken: %s', async (_name, body) => {
    const received = await accepted(body)
    expect(received.model).toBe('m')
    expect('svc' in received).toBe(false)
  })

  const beyond: readonly (readonly [string, object, string])[] = [
    ['model missing', { model: undefined }, 'model'],
    ['model empty', { model: '' }, 'model'],
    ['model a number', { model: 7 }, 'model'],
    ['model null', { model: null }, 'model'],
    ['messages missing', { messages: undefined }, 'messages'],
    ['messages empty', { messages: [] }, 'messages'],
    ['messages a text', { messages: secret }, 'messages'],
    ['a message that is a text', { messages: [secret] }, 'messages[0]'],
    ['role missing', { messages: [{ content: secret }] }, 'messages[0].role'],
    ['role developer', { messages: [...messages, { role: 'developer', content: secret }] }, 'messages[1].role'],
    ['role function', { messages: [{ role: 'function', content: secret }] }, 'messages[0].role'],
    ['role of another case', { messages: [{ role: 'User', content: secret }] }, 'messages[0].role'],
    ['content missing', { messages: [{ role: 'user', text: secret }] }, 'messages[0].content'],
    ...[0, -1, 1.5, '5', 1_048_577, true].map(
      (value) => [`max_tokens ${value}`, { max_tokens: value }, 'max_tokens'] as const,
    ),
    ...[0, '5'].map(
      (value) => [`max_completion_tokens ${value}`, { max_completion_tokens: value }, 'max_completion_tokens'] as const,
    ),
    ['max_tokens and its alias differ', { max_tokens: 5, max_completion_tokens: 6 }, 'max_completion_tokens'],
    ...[-0.01, 2.01, '1'].map((value) => [`temperature ${value}`, { temperature: value }, 'temperature'] as const),
    ...[0, -1, 1.01, '1'].map((value) => [`top_p ${value}`, { top_p: value }, 'top_p'] as const),
    ...[0, -1, 1.5, '1'].map((value) => [`n ${value}`, { n: value }, 'n'] as const),
    ...['true', 1].map((value) => [`stream ${value}`, { stream: value }, 'stream'] as const),
    ['stream_options a text', { stream: true, stream_options: secret }, 'stream_options'],
    ['svc a text', { svc: secret }, 'svc'],
    ['svc a list', { svc: [] }, 'svc'],
    ...['', 'a b', 'a:b', 'x'.repeat(65), 7].flatMap((value) =>
      ['job_id', 'node_id', 'model_profile_id'].map(
        (field) => [`svc.${field} ${JSON.stringify(value)}`, { svc: { [field]: value } }, `svc.${field}`] as const,
      ),
    ),
    ['svc.max_price_wei a number', { svc: { max_price_wei: 5 } }, 'svc.max_price_wei'],
  ]
  test.each(beyond.map((row) => [...row] as const))('refused: %s', async (_name, body, param) => {
    await refused(await ask(body), invalid(param))
  })
})

describe('§3: what chat does not do', () => {
  const cases: readonly (readonly [string, object, ExpectedRefusal])[] = [
    ['n 2', { n: 2 }, bad('n_not_supported', 'n')],
    ['private_job', { svc: { dispatch_mode: 'private_job' } }, bad('private_job_not_supported', 'svc.dispatch_mode')],
    ['another mode', { svc: { dispatch_mode: secret } }, bad('dispatch_mode_invalid', 'svc.dispatch_mode')],
    ['a mode of another type', { svc: { dispatch_mode: null } }, bad('dispatch_mode_invalid', 'svc.dispatch_mode')],
    ...['encrypted_request', 'envelope', 'ciphertext', 'webhook_url'].map(
      (key) => [key, { [key]: secret }, bad('private_job_payload_not_allowed', key)] as const,
    ),
    ...['node_id', 'runtime_id', 'route', 'hostname', 'endpoint_url', 'node_url'].map(
      (key) => [`${key} at the top`, { [key]: secret }, bad('direct_node_targeting_not_allowed', key)] as const,
    ),
    ...['runtime_id', 'route', 'hostname', 'endpoint_url', 'node_url'].map(
      (key) =>
        [`svc.${key}`, { svc: { [key]: secret } }, bad('direct_node_targeting_not_allowed', `svc.${key}`)] as const,
    ),
    ['a targeting key that is null is one', { route: null }, bad('direct_node_targeting_not_allowed', 'route')],
  ]
  test.each(cases.map((row) => [...row] as const))('%s', async (_name, body, expected) => {
    const before = own.requests.length
    await refused(await ask(body), expected)
    expect(own.requests.length).toBe(before)
  })
})

describe('§4: who may chat', () => {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const unauthorized = (code: string, param: string | null = 'header.authorization'): ExpectedRefusal => ({
    status: 401,
    code,
    param,
    retry: false,
  })
  const asCustomer = (id = customer.customerId, token = customer.customerToken) => ({
    'x-svc-customer-id': id,
    'x-svc-customer-token': token,
  })
  const post = (headers: Record<string, string>) =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'm', messages }),
    })

  test('a gateway key alone; the scheme in any case', async () => {
    expect((await post(bearer(customer.key))).status).toBe(200)
    expect((await post({ authorization: `bEaReR   ${customer.key}` })).status).toBe(200)
  })

  test('an operator’s or an admin’s token with both customer headers acts for that customer', async () => {
    for (const token of [gateway.tokens.operator, gateway.tokens.admin]) {
      const response = await post({ ...bearer(token), ...asCustomer() })
      expect(response.status).toBe(200)
    }
    const theirs = await post({
      ...bearer(gateway.tokens.operator),
      ...asCustomer(other.customerId, other.customerToken),
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
    ['the id alone', () => ({ 'x-svc-customer-id': customer.customerId })],
    ['the token alone', () => ({ 'x-svc-customer-token': customer.customerToken })],
    ['empty headers', () => ({ 'x-svc-customer-id': '', 'x-svc-customer-token': '' })],
  ] as const)('a gateway key together with %s', async (_name, more) => {
    await refused(await post({ ...bearer(customer.key), ...more() }), bad('conflicting_credentials'))
  })

  test('an operator’s token without the customer, or with half of it', async () => {
    const { operator } = gateway.tokens
    const { 'x-svc-customer-id': id, 'x-svc-customer-token': token } = asCustomer()
    const missing = unauthorized('missing_credentials', 'header.x-svc-customer-id')
    await refused(await post(bearer(operator)), missing)
    await refused(await post({ ...bearer(operator), 'x-svc-customer-token': token }), missing)
    await refused(await post({ ...bearer(operator), 'x-svc-customer-id': id }), {
      ...missing,
      param: 'header.x-svc-customer-token',
    })
  })

  test('the wrong customer, the same answer for unknown and for wrong', async () => {
    const { operator } = gateway.tokens
    const messagesSeen = new Set<string>()
    for (const headers of [
      asCustomer(customer.customerId, other.customerToken),
      asCustomer(customer.customerId, 'nonsense'),
      asCustomer('cus_00000000000000000000000000'),
    ]) {
      const refusal = await refused(
        await post({ ...bearer(operator), ...headers }),
        unauthorized('invalid_credentials'),
      )
      messagesSeen.add(refusal.message)
    }
    expect(messagesSeen.size).toBe(1)
  })

  test('a key that is malformed, unknown, revoked, expired, or no gateway key: one answer', async () => {
    const revoked = await gateway.customer()
    await gateway.admin('DELETE', `/v1/admin/keys/${revoked.keyId}`)
    const soon = new Date(Date.now() + 300).toISOString()
    const expiring = await gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${customer.customerId}/keys`,
      { name: 'short', expires_at: soon },
    )
    await waitFor('the key to expire', () => Date.now() > Date.parse(soon))
    const tokens = [
      'svc_gateway_short',
      newToken('gateway'),
      revoked.key,
      expiring.gateway_key,
      customer.customerToken,
      gateway.tokens.viewer,
      'nonsense',
    ]
    const messagesSeen = new Set<string>()
    for (const token of tokens) {
      messagesSeen.add((await refused(await post(bearer(token)), unauthorized('invalid_api_key'))).message)
    }
    for (const authorization of ['Basic dTpw', 'Bearer', customer.key, `Bearer ${customer.key} x`]) {
      messagesSeen.add((await refused(await post({ authorization }), unauthorized('invalid_api_key'))).message)
    }
    expect(messagesSeen.size).toBe(1)
  })

  test('a viewer cannot spend for a customer', async () => {
    const response = await post({ ...bearer(gateway.tokens.viewer), ...asCustomer() })
    await refused(response, unauthorized('invalid_api_key'))
  })

  test('an account that is not active', async () => {
    for (const status of ['suspended', 'closed']) {
      const paused = await gateway.customer()
      await gateway.admin('PATCH', `/v1/admin/customers/${paused.customerId}`, { account_status: status })
      await refused(await ask({}, { key: paused.key }), { status: 403, code: 'account_suspended', retry: false })
    }
  })
})

describe('§5: the pin', () => {
  test.each([
    ['in the body', () => [{ svc: { node_id: ownNodeId } }, ''] as const],
    ['in the query', () => [{}, `?node_id=${ownNodeId}`] as const],
    ['in both', () => [{ svc: { node_id: ownNodeId } }, `?node_id=${ownNodeId}`] as const],
    [
      'percent-encoded, beside unknown parameters',
      () => [{}, `?x=1&x=2&node_id=${ownNodeId.replace('_', '%5F')}`] as const,
    ],
  ])('%s', async (_name, pin) => {
    const [body, query] = pin()
    for (let i = 0; i < 4; i++) {
      const before = own.requests.length
      await accepted(body, { query })
      expect(own.requests.length).toBe(before + 1)
    }
  })

  test('body and query do not agree', async () => {
    await refused(
      await ask({ svc: { node_id: ownNodeId } }, { query: `?node_id=${secondNodeId}` }),
      bad('node_pin_conflict', 'query.node_id'),
    )
  })

  test.each([
    ['twice', () => `?node_id=${ownNodeId}&node_id=${ownNodeId}`],
    ['empty', () => '?node_id='],
    ['no id', () => '?node_id=a%20b'],
  ])('a query parameter that is %s', async (_name, query) => {
    await refused(await ask({}, { query: query() }), bad('invalid_parameter', 'query.node_id'))
  })

  test('unknown or somebody else’s: the same answer', async () => {
    const told = new Set<string>()
    for (const nodeId of ['node_00000000000000000000000000', foreignNodeId]) {
      const expected = { status: 403, code: 'node_pin_forbidden', param: 'svc.node_id', retry: false }
      told.add((await refused(await ask({ svc: { node_id: nodeId } }), expected)).message)
    }
    expect(told.size).toBe(1)
  })

  test('no failover from a pinned node', async () => {
    own.setFaults({ kind: 'status500', times: 1 })
    const second = nodeAt(nodes, 1)
    const before = second.requests.length
    await refused(await ask({ svc: { node_id: ownNodeId } }), { status: 502, code: 'upstream_error', retry: true })
    expect(second.requests.length).toBe(before)
  })
})

describe('§9: the profile', () => {
  test('restricts the choice to it', async () => {
    const before = own.requests.length
    for (let i = 0; i < 4; i++) await accepted({ svc: { model_profile_id: profileId } })
    expect(own.requests.length).toBe(before + 4)
  })

  test.each([
    ['unknown', () => 'mp_00000000000000000000000000'],
    ['somebody else’s', () => foreignProfileId],
  ])('%s', async (_name, id) => {
    const body = { svc: { model_profile_id: id() } }
    await refused(await ask(body), {
      status: 404,
      code: 'model_not_found',
      param: 'svc.model_profile_id',
      retry: false,
    })
  })
})

describe('§5: what the node receives', () => {
  test('unknown fields as they came, its own headers, nothing of the client’s', async () => {
    const extra = {
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }],
      tool_choice: 'none',
      parallel_tool_calls: false,
      response_format: { type: 'text' },
      seed: 42,
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
      logit_bias: { '50256': -100 },
      logprobs: true,
      top_logprobs: 3,
      reasoning_effort: 'low',
      top_k: 40,
      min_p: 0.05,
      repetition_penalty: 1.1,
      chat_template_kwargs: { enable_thinking: false },
      brand_new: { deep: [1, { x: null }] },
    }
    const hidden = {
      svc: { job_id: 'job-1', colour: 'red' },
      user: 'u',
      safety_identifier: 's',
      metadata: { a: 'b' },
      store: true,
      prompt_cache_key: 'p',
      service_tier: 'auto',
    }
    const turn = { role: 'assistant', content: null, tool_calls: [{ id: 'c' }], name: 'x', odd: 1 }
    const body = { messages: [turn, { role: 'user', content: 'ok' }], ...extra, ...hidden }
    const headers = {
      'x-request-id': 'mine-1',
      traceparent: '00-11111111111111111111111111111111-2222222222222222-01',
      cookie: 'a=b',
      'idempotency-key': 'k',
      'x-custom': 'y',
    }
    const response = await ask({ ...body, svc: { ...hidden.svc, node_id: ownNodeId } }, { headers })
    expect(response.status).toBe(200)
    const seen = own.requests.at(-1)
    expect(seen?.body).toEqual({ model: 'm', messages: body.messages, ...extra })
    expect(Object.keys(seen?.headers ?? {}).sort()).toEqual(
      ['accept-encoding', 'content-length', 'content-type', 'host', 'user-agent', 'x-svc-request-id'].sort(),
    )
    expect(seen?.headers['x-svc-request-id']).toBe(response.headers.get('x-request-id') ?? '')
    expect(seen?.headers['accept-encoding']).toBe('identity')
  })

  test.each([
    ['not sent', undefined, { include_usage: true }],
    ['false', { include_usage: false }, { include_usage: true }],
    ['true, with more', { include_usage: true, other: 1 }, { include_usage: true, other: 1 }],
  ] as const)('§6: usage is asked of the node, include_usage %s', async (_name, options, told) => {
    const body = { stream: true, ...(options === undefined ? {} : { stream_options: options }) }
    expect((await accepted(body)).stream_options).toEqual(told)
  })

  test('§6: and without a stream nothing is added', async () => {
    expect(await accepted({})).toEqual({ model: 'm', messages })
  })
})

describe('§1: x-request-id', () => {
  test('ours on every response, never the one that came in', async () => {
    const headers = { 'x-request-id': 'mine-1' }
    const seen = new Set<string>()
    for (const body of [{}, { stream: true }, { n: 2 }, { model: 'unknown' }]) {
      const response = await ask(body, { headers })
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

describe('§3: refusals of policy, models and routes', () => {
  test('model_not_found: unknown, or nobody of the caller’s serves it', async () => {
    for (const model of ['unknown', 'theirs']) {
      await refused(await ask({ model }), { status: 404, code: 'model_not_found', param: 'model', retry: false })
    }
  })

  test('a model name that is a prompt is not repeated', async () => {
    await refused(await ask({ model: secret }), { status: 404, code: 'model_not_found', param: 'model', retry: false })
  })

  test('model_not_allowed', async () => {
    for (const options of [{ keyPolicy: { denied_models: ['m'] } }, { keyPolicy: { allowed_models: ['sta*'] } }]) {
      const key = await gateway.admin<{ gateway_key: string }>(
        'POST',
        `/v1/admin/customers/${customer.customerId}/keys`,
        {
          name: 'narrow',
          model_policy: options.keyPolicy,
        },
      )
      await refused(await ask({}, { key: key.gateway_key }), {
        status: 403,
        code: 'model_not_allowed',
        param: 'model',
        retry: false,
      })
      expect((await ask({ model: 'stays' }, { key: key.gateway_key })).status).toBe(200)
    }
  })

  test('privacy_class_not_allowed: only a stranger’s machine serves it', async () => {
    await refused(await ask({ model: 'public' }), {
      status: 403,
      code: 'privacy_class_not_allowed',
      param: 'model',
      retry: false,
    })
    expect(nodeAt(nodes, 3).requests).toHaveLength(0)
  })

  test('context_length_exceeded', async () => {
    const long = { messages: [{ role: 'user', content: 'x'.repeat(30_000) }], svc: { node_id: ownNodeId } }
    await refused(await ask(long), bad('context_length_exceeded', 'messages'))
  })

  test('context_length_exceeded: images count 1 024 tokens each, however short their address', async () => {
    const image = { type: 'image_url', image_url: { url: 'http://a/b' } }
    const images = (count: number) => ({
      messages: [{ role: 'user', content: Array.from({ length: count }, () => image) }],
    })
    await refused(await ask(images(8)), bad('context_length_exceeded', 'messages'))
    expect((await ask(images(7))).status).toBe(200)
  })

  test('max_tokens_exceeded', async () => {
    const modest = await gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${customer.customerId}/keys`,
      {
        name: 'modest',
        model_policy: { max_tokens_per_request: 100 },
      },
    )
    const key = modest.gateway_key
    await refused(await ask({ max_tokens: 101 }, { key }), bad('max_tokens_exceeded', 'max_tokens'))
    expect((await accepted({ max_tokens: 100 }, { key })).max_tokens).toBe(100)
    expect((await accepted({}, { key })).max_tokens).toBe(100)
  })

  test('no_route_available, with Retry-After 5: known, and nobody can serve it now', async () => {
    nodeAt(nodes, 1).setFaults({ kind: 'refuse' })
    await waitFor('the node to be stale', async () => {
      const shown = await gateway.admin<ShownNode>('GET', `/v1/admin/nodes/${secondNodeId}`)
      return shown.state !== 'ready'
    })
    const expected = { status: 503, code: 'no_route_available', param: null, retry: true }
    const { headers } = await refused(await ask({ model: 'gone' }), expected)
    expect(headers.get('retry-after')).toBe('5')
    nodeAt(nodes, 1).clearFaults()
  })

  test('capacity_exhausted after the queue wait, and a slot that frees in time is taken', async () => {
    const busy = nodeAt(nodes, 4)
    busy.setAnswer({ firstTokenMs: 400 })
    const started = busy.nextRequest()
    const first = ask({ model: 'one-slot' })
    await started
    const expected = { status: 429, code: 'capacity_exhausted', param: null, retry: true }
    await refused(await ask({ model: 'one-slot' }), expected)
    expect((await first).status).toBe(200)
    busy.setAnswer({ firstTokenMs: 0 })
    expect((await ask({ model: 'one-slot' })).status).toBe(200)
  })

  test('rate_limited, with the RateLimit headers', async () => {
    const policy = { rate_limit_rpm: 1 }
    const { key, customerId } = await gateway.customer({ policy })
    const node = nodeAt(startFakeNodes(1, { models: ['slow'] }), 0)
    try {
      await gateway.node(node.url, { customerId })
      const first = await ask({ model: 'slow' }, { key })
      expect(first.status).toBe(200)
      expect(first.headers.get('ratelimit-policy')).toBe('"chat";q=1;w=60')
      const { headers } = await refused(await ask({ model: 'slow' }, { key }), {
        status: 429,
        code: 'rate_limited',
        retry: true,
      })
      expect(headers.get('ratelimit')).toMatch(/^"chat";r=0;t=\d+$/)
    } finally {
      node.stop()
    }
  })

  test('concurrency_limited, with Retry-After 1', async () => {
    const { key, customerId } = await gateway.customer({ policy: { max_concurrency: 1 } })
    const node = nodeAt(startFakeNodes(1, { models: ['slow'], answer: { firstTokenMs: 300 } }), 0)
    try {
      await gateway.node(node.url, { customerId })
      const started = node.nextRequest()
      const first = ask({ model: 'slow' }, { key })
      await started
      const expected = { status: 429, code: 'concurrency_limited', retry: true }
      const { headers } = await refused(await ask({ model: 'slow' }, { key }), expected)
      expect(headers.get('retry-after')).toBe('1')
      expect((await first).status).toBe(200)
    } finally {
      node.stop()
    }
  })

  test('daily_token_quota_exceeded: insufficient_quota, seconds to midnight UTC, no retry', async () => {
    const { key, customerId } = await gateway.customer({ policy: { daily_token_quota: 50 } })
    const node = nodeAt(startFakeNodes(1, { models: ['slow'] }), 0)
    try {
      await gateway.node(node.url, { customerId })
      const response = await ask({ model: 'slow', max_tokens: 1_000 }, { key })
      const left = 86_400 - (Math.floor(Date.now() / 1_000) % 86_400)
      const refusal = await refused(response, {
        status: 429,
        code: 'daily_token_quota_exceeded',
        type: 'insufficient_quota',
        retry: false,
      })
      expect(Math.abs(Number(refusal.headers.get('retry-after')) - left)).toBeLessThanOrEqual(2)
      expect(node.requests).toHaveLength(0)
    } finally {
      node.stop()
    }
  })
})

describe('§3: refusals of nodes before the first byte, streamed or not', () => {
  const pinned = (stream: boolean) => ({ stream, svc: { node_id: ownNodeId } })
  test.each([
    ['500', { kind: 'status500' }, { status: 502, code: 'upstream_error', retry: true }],
    ['503', { kind: 'status500', status: 503 }, { status: 502, code: 'upstream_error', retry: true }],
    ['429', { kind: 'status429', retryAfterS: 7 }, { status: 429, code: 'capacity_exhausted', retry: true }],
    ['400', { kind: 'status400' }, { status: 400, code: 'invalid_request', retry: false }],
    ['an error body under 200', { kind: 'jsonErrorBody' }, { status: 502, code: 'upstream_error', retry: true }],
    ['a reset', { kind: 'failAfter', ms: 0, as: 'reset' }, { status: 502, code: 'upstream_error', retry: true }],
  ] as const)('%s', async (_name, fault, expected) => {
    for (const stream of [false, true]) {
      own.setFaults({ ...fault, scope: 'chat' })
      const refusal = await refused(await ask(pinned(stream)), expected)
      expect(refusal.message).not.toContain('fake')
      if (expected.status === 429) expect(refusal.headers.get('retry-after')).toBe('7')
    }
    own.clearFaults()
  })

  test('upstream_timeout: no first chunk within the time for it', async () => {
    own.setFaults({ kind: 'hang', times: 1 })
    await refused(await ask(pinned(true)), { status: 504, code: 'upstream_timeout', retry: true })
    await own.idle()
  })
})
