import { describe, expect, test } from 'bun:test'
import { chatRoles } from '../../../src/protocol/wire/inference/chat.ts'
import type { ExpectedRefusal } from '../../support/clients/chat-refusal.ts'
import { bad, chatPath, invalid, messages, refused, secret, startChatPool } from '../../support/pools/chat-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const pool = await fixture(startChatPool())

describe('§3: bodies that are none', () => {
  const deep = (levels: number) =>
    `{"model":"m","messages":[{"role":"user","content":${'['.repeat(levels)}${']'.repeat(levels)}}]}`
  test.each([
    ['half a body', `{"model":"m","messages":"${secret}`, bad('invalid_json', null)],
    ['empty', '', bad('invalid_json', null)],
    ['two bodies', '{}{}', bad('invalid_json', null)],
    ['129 levels', deep(126), bad('invalid_json', null)],
    ['text', `"${secret}"`, invalid()],
    ['a list', '[]', invalid()],
    ['null', 'null', invalid()],
  ] as const)('%s', async (_name, raw, expected) => {
    await refused(await pool.ask({}, { raw }), expected)
  })

  test('128 levels are not too deep', async () => {
    expect((await pool.ask({}, { raw: deep(125) })).status).toBe(200)
  })

  test.each([
    ['text/plain', { 'content-type': 'text/plain' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['almost JSON', { 'content-type': 'application/json-seq' }],
    ['compressed', { 'content-encoding': 'gzip' }],
  ] as const)('415: %s', async (_name, headers) => {
    await refused(await pool.ask({}, { headers }), { status: 415, code: 'unsupported_media_type', retry: false })
  })

  test('a byte order mark before the body is passed over', async () => {
    const raw = `\ufeff${JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })}`
    expect((await pool.ask({}, { raw })).status).toBe(200)
  })

  test('a charset is fine', async () => {
    expect((await pool.ask({}, { headers: { 'content-type': 'Application/JSON; charset=utf-8' } })).status).toBe(200)
  })

  test('413: a body over 8 MiB, and just below it none', async () => {
    const size = 8 * 1024 * 1024
    const frame = JSON.stringify({ model: 'unknown', messages: [{ role: 'user', content: '' }] })
    const fill = (bytes: number) => frame.replace('"content":""', `"content":"${'x'.repeat(bytes - frame.length)}"`)
    await refused(await pool.ask({}, { raw: fill(size + 1) }), { status: 413, code: 'payload_too_large', retry: false })
    const fits = await pool.ask({}, { raw: fill(size) })
    expect(fits.status).toBe(404)
    await fits.text()
  })

  test('405 with Allow on another method, in the envelope of chat', async () => {
    const response = await fetch(pool.gateway.url + chatPath, {
      headers: { authorization: `Bearer ${pool.customer.key}` },
    })
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
    ['roles', { messages: [...chatRoles, 'developer'].map((role) => ({ role, content: 'x' })) }],
    ['a call without content', { messages: [...messages, { role: 'assistant', tool_calls: [{ id: 'c' }] }] }],
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
    const received = await pool.accepted(body)
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
    ['role function', { messages: [{ role: 'function', content: secret }] }, 'messages[0].role'],
    ['role of another case', { messages: [{ role: 'User', content: secret }] }, 'messages[0].role'],
    ['content missing', { messages: [{ role: 'user', text: secret }] }, 'messages[0].content'],
    ['content of a developer missing', { messages: [...messages, { role: 'developer' }] }, 'messages[1].content'],
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
    await refused(await pool.ask(body), invalid(param))
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
    ...['encrypted_request', 'envelope', 'ciphertext', 'webhook_url'].map(
      (key) =>
        [`svc.${key}`, { svc: { [key]: secret } }, bad('private_job_payload_not_allowed', `svc.${key}`)] as const,
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
    const before = pool.own.requests.length
    await refused(await pool.ask(body), expected)
    expect(pool.own.requests.length).toBe(before)
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
    const response = await pool.ask({ ...body, svc: { ...hidden.svc, node_id: pool.ownNodeId } }, { headers })
    expect(response.status).toBe(200)
    const seen = pool.own.requests.at(-1)
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
    expect((await pool.accepted(body)).stream_options).toEqual(told)
  })

  test('§6: and without a stream nothing is added', async () => {
    expect(await pool.accepted({})).toEqual({ model: 'm', messages })
  })
})
