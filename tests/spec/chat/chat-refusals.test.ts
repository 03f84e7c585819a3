import { describe, expect, test } from 'bun:test'
import { secondsToUtcMidnight } from '../../../src/time.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { bad, refused, type ShownNode, secret, startChatPool } from '../../support/pools/chat-pool.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitLimitMs } from '../../support/run/limits.ts'

const pool = await fixture(startChatPool())

describe('§3: refusals of policy, models and routes', () => {
  test('model_not_found: unknown, or nobody of the caller’s serves it', async () => {
    for (const model of ['unknown', 'theirs']) {
      await refused(await pool.ask({ model }), { status: 404, code: 'model_not_found', param: 'model', retry: false })
    }
  })

  test('§3: model_not_found names the nearest model of the caller’s, and never one of others', async () => {
    const said = async (model: string, path = '/v1/chat/completions') => {
      const response = await postJson(pool.gateway.url + path, pool.customer.key, {
        model,
        max_tokens: 5,
        messages: [{ role: 'user', content: 'hi' }],
      })
      const { error } = (await response.json()) as { error: { message: string } }
      return [response.status, error.message]
    }
    const lists = 'GET /v1/models lists what you can use.'
    for (const path of ['/v1/chat/completions', '/v1/messages']) {
      expect(await said('stay', path)).toEqual([404, `No model is called stay. Did you mean stays? ${lists}`])
      for (const model of ['their', 'publi'])
        expect(await said(model, path)).toEqual([404, `No model has this name. ${lists}`])
    }
    const one = await fetch(`${pool.gateway.url}/v1/models/stay`, {
      headers: { authorization: `Bearer ${pool.customer.key}` },
    })
    expect(await one.json()).toMatchObject({
      error: { message: `No model is called stay. Did you mean stays? ${lists}` },
    })
  })

  test('a model name that is a prompt is not repeated', async () => {
    await refused(await pool.ask({ model: secret }), {
      status: 404,
      code: 'model_not_found',
      param: 'model',
      retry: false,
    })
  })

  test('model_not_allowed', async () => {
    for (const options of [{ keyPolicy: { denied_models: ['m'] } }, { keyPolicy: { allowed_models: ['sta*'] } }]) {
      const key = await pool.gateway.admin<{ gateway_key: string }>(
        'POST',
        `/v1/admin/customers/${pool.customer.customerId}/keys`,
        {
          name: 'narrow',
          model_policy: options.keyPolicy,
        },
      )
      await refused(await pool.ask({}, { key: key.gateway_key }), {
        status: 403,
        code: 'model_not_allowed',
        param: 'model',
        retry: false,
      })
      expect((await pool.ask({ model: 'stays' }, { key: key.gateway_key })).status).toBe(200)
    }
  })

  test('privacy_class_not_allowed: only a stranger’s machine serves it', async () => {
    const { message } = await refused(await pool.ask({ model: 'public' }), {
      status: 403,
      code: 'privacy_class_not_allowed',
      param: 'model',
      retry: false,
    })
    expect(message).toBe(
      "This key and its account may use only private nodes, which are your own, and none serves public. Ask the operator to set the key's and the account's min_privacy_class to public.",
    )
    expect(nodeAt(pool.nodes, 3).requests).toHaveLength(0)
  })

  test('context_length_exceeded', async () => {
    const long = { messages: [{ role: 'user', content: 'x'.repeat(70_000) }], svc: { node_id: pool.ownNodeId } }
    const { message } = await refused(await pool.ask(long), bad('context_length_exceeded', 'messages'))
    expect(message).toBe("The prompt has at least 8,400 tokens by the gateway's estimate; m takes 8,192.")
  })

  test('max_tokens_exceeded', async () => {
    const modest = await pool.gateway.admin<{ gateway_key: string }>(
      'POST',
      `/v1/admin/customers/${pool.customer.customerId}/keys`,
      {
        name: 'modest',
        model_policy: { max_tokens_per_request: 100 },
      },
    )
    const key = modest.gateway_key
    await refused(await pool.ask({ max_tokens: 101 }, { key }), bad('max_tokens_exceeded', 'max_tokens'))
    expect((await pool.accepted({ max_tokens: 100 }, { key })).max_tokens).toBe(100)
    expect((await pool.accepted({}, { key })).max_tokens).toBe(100)
  })

  test('no_route_available, with Retry-After 5: known, and nobody can serve it now', async () => {
    nodeAt(pool.nodes, 1).setFaults({ kind: 'refuse' })
    await waitFor('the node to be stale', async () => {
      const shown = await pool.gateway.admin<ShownNode>('GET', `/v1/admin/nodes/${pool.secondNodeId}`)
      return shown.state !== 'ready'
    })
    const expected = { status: 503, code: 'no_route_available', param: null, retry: true }
    const { headers } = await refused(await pool.ask({ model: 'gone' }), expected)
    expect(headers.get('retry-after')).toBe('5')
    nodeAt(pool.nodes, 1).clearFaults()
  })

  test('capacity_exhausted after the queue wait, and a slot that frees in time is taken', async () => {
    const busy = nodeAt(pool.nodes, 4)
    busy.setAnswer({ firstTokenMs: waitLimitMs })
    const started = busy.nextRequest()
    const first = pool.ask({ model: 'one-slot' })
    await started
    const expected = { status: 429, code: 'capacity_exhausted', param: null, retry: true }
    await refused(await pool.ask({ model: 'one-slot' }), expected)
    busy.setAnswer({ firstTokenMs: 0 })
    busy.release()
    expect((await first).status).toBe(200)
    expect((await pool.ask({ model: 'one-slot' })).status).toBe(200)
  })

  test('rate_limited, with the RateLimit headers', async () => {
    const policy = { rate_limit_rpm: 1 }
    const { key, customerId } = await pool.gateway.customer({ policy })
    await using node = await scoped(nodeAt(startFakeNodes(1, { models: ['slow'] }), 0))
    await pool.gateway.node(node.url, { customerId })
    const first = await pool.ask({ model: 'slow' }, { key })
    expect(first.status).toBe(200)
    expect(first.headers.get('ratelimit-policy')).toBe('"chat";q=1;w=60')
    const { headers } = await refused(await pool.ask({ model: 'slow' }, { key }), {
      status: 429,
      code: 'rate_limited',
      retry: true,
    })
    expect(headers.get('ratelimit')).toBe(`"chat";r=0;t=${headers.get('retry-after')}`)
  })

  test('concurrency_limited, with Retry-After 1', async () => {
    const { key, customerId } = await pool.gateway.customer({ policy: { max_concurrency: 1 } })
    await using node = await scoped(nodeAt(startFakeNodes(1, { models: ['slow'], answer: { firstTokenMs: 1_500 } }), 0))
    await pool.gateway.node(node.url, { customerId })
    const started = node.nextRequest()
    const first = pool.ask({ model: 'slow' }, { key })
    await started
    const expected = { status: 429, code: 'concurrency_limited', retry: true }
    const { headers } = await refused(await pool.ask({ model: 'slow' }, { key }), expected)
    expect(headers.get('retry-after')).toBe('1')
    expect((await first).status).toBe(200)
  })

  test('daily_token_quota_exceeded: insufficient_quota, seconds to midnight UTC, no retry', async () => {
    const { key, customerId } = await pool.gateway.customer({ policy: { daily_token_quota: 50 } })
    await using node = await scoped(nodeAt(startFakeNodes(1, { models: ['slow'] }), 0))
    await pool.gateway.node(node.url, { customerId })
    const most = secondsToUtcMidnight(Date.now())
    const response = await pool.ask({ model: 'slow', max_tokens: 1_000 }, { key })
    const least = secondsToUtcMidnight(Date.now())
    const refusal = await refused(response, {
      status: 429,
      code: 'daily_token_quota_exceeded',
      type: 'insufficient_quota',
      retry: false,
    })
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThanOrEqual(least)
    expect(Number(refusal.headers.get('retry-after'))).toBeLessThanOrEqual(most)
    expect(refusal.headers.get('ratelimit')).toBe(`"chat-tokens";r=0;t=${refusal.headers.get('retry-after')}`)
    expect(node.requests).toHaveLength(0)
  })
})

describe('§3: refusals of pool.nodes before the first byte, streamed or not', () => {
  const pinned = (stream: boolean) => ({ stream, svc: { node_id: pool.ownNodeId } })
  test.each([
    ['500', { kind: 'status500' }, { status: 502, code: 'upstream_error', retry: true }],
    ['503', { kind: 'status500', status: 503 }, { status: 502, code: 'upstream_error', retry: true }],
    ['429', { kind: 'status429', retryAfterS: 7 }, { status: 429, code: 'capacity_exhausted', retry: true }],
    ['400', { kind: 'status400' }, { status: 400, code: 'invalid_request', retry: false }],
    ['an error body under 200', { kind: 'jsonErrorBody' }, { status: 502, code: 'upstream_error', retry: true }],
    ['a reset', { kind: 'failAfter', ms: 0, as: 'reset' }, { status: 502, code: 'upstream_error', retry: true }],
  ] as const)('%s', async (_name, fault, expected) => {
    for (const stream of [false, true]) {
      pool.own.setFaults({ ...fault, scope: 'chat' })
      const refusal = await refused(await pool.ask(pinned(stream)), expected)
      // A 400 is told in the node's own words (§27), a failure in ours.
      expect(refusal.message.includes('fake')).toBe(expected.status === 400)
      if (expected.status === 429) expect(refusal.headers.get('retry-after')).toBe('7')
    }
    pool.own.clearFaults()
  })

  test('upstream_timeout: no first chunk within the time for it', async () => {
    pool.own.setFaults({ kind: 'hang', times: 1 })
    await refused(await pool.ask(pinned(true)), { status: 504, code: 'upstream_timeout', retry: true })
    await pool.own.idle()
  })
})
