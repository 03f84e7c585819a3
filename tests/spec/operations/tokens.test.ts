import { beforeEach, describe, expect, test } from 'bun:test'
import { waitFor } from '../../support/gateways/gateway.ts'
import { recorded, saying, startTokenNode } from '../../support/nodes/token-node.ts'
import { type Json, messages, shared, startTokenPool, tokenCounts, tokenKinds } from '../../support/pools/token-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const pool = await fixture(startTokenPool())

beforeEach(() => pool.reset())

describe('§28: tokens', () => {
  test.each(tokenKinds)('%s tokenizes a text and a chat, and writes tokens as a text', async (kind) => {
    const { '/tokenize': said } = recorded[kind]
    const answer = {
      count: tokenCounts[kind],
      max_model_len: 4_096,
      tokens: [...said.tokens],
      token_strs: null,
      svc: { runtime_kind: kind },
    }
    expect(await pool.told('/v1/tokenize', { model: kind, prompt: 'the a of and' })).toMatchObject(answer)
    expect(await pool.told('/v1/api/tokenize', { model: kind, messages })).toMatchObject(answer)
    const text = { 'llama.cpp': '<s> a of', vllm: '<|begin_of_text|>Hi', sglang: '<|begin_of_text|>Hi' }[kind]
    expect(await pool.told('/v1/detokenize', { model: kind, tokens: [1, 260] })).toMatchObject({ prompt: text })
    expect(pool.node(kind).calls.at(-1)?.body).toMatchObject({ model: kind, tokens: [1, 260] })
  })

  test('each token as a text: what is no whole character is written by its bytes', async () => {
    const asked = { prompt: 'é', return_token_strs: true, add_special_tokens: false }
    pool.node('llama.cpp').answer(
      saying({
        '/tokenize': {
          tokens: [
            { id: 198, piece: [195] },
            { id: 172, piece: [169] },
            { id: 269, piece: ' ' },
          ],
        },
      }),
    )
    const pieces = await pool.told('/v1/tokenize', { model: 'llama.cpp', ...asked })
    expect(pieces).toMatchObject({ count: 3, tokens: [198, 172, 269], token_strs: ['<0xC3>', '<0xA9>', ' '] })
    expect(pool.node('llama.cpp').calls.at(-1)?.body).toMatchObject({ add_special: false, with_pieces: true })
    pool.node('vllm').answer(saying({ '/tokenize': { count: 1, tokens: [102], token_strs: ['Ã©'] } }))
    expect(await pool.told('/v1/tokenize', { model: 'vllm', ...asked })).toMatchObject({ token_strs: ['Ã©'] })
    expect(pool.node('vllm').calls.at(-1)?.body).toMatchObject({ add_special_tokens: false, return_token_strs: true })
    // SGLang says none.
    expect(await pool.told('/v1/tokenize', { model: 'sglang', ...asked })).toMatchObject({ token_strs: null })
  })

  test('where the answer begins and where the last message ends are told to the template', async () => {
    await pool.told('/v1/tokenize', { model: 'vllm', messages, continue_final_message: true })
    expect(pool.node('vllm').calls.at(-1)?.body).toMatchObject({
      continue_final_message: true,
      add_generation_prompt: false,
    })
    await pool.told('/v1/tokenize', { model: 'llama.cpp', messages, add_generation_prompt: false })
    expect(pool.node('llama.cpp').calls.at(-2)?.body).toMatchObject({ add_generation_prompt: false })
    expect(await pool.refused('/v1/tokenize', { model: 'sglang', messages, add_generation_prompt: false })).toEqual([
      400,
      'modality_not_supported',
      'model',
    ])
  })

  test.each([
    ['modality_not_supported', 400, 'model', { model: 'other', prompt: 'x' }],
    ['no_route_available', 503, null, { model: 'unloaded', prompt: 'x' }],
    ['model_not_found', 404, 'model', { model: 'nothing', prompt: 'x' }],
    ['invalid_request', 400, 'prompt', { model: 'vllm' }],
    ['invalid_request', 400, 'prompt', { model: 'vllm', prompt: 'x', messages }],
    ['invalid_request', 400, 'add_special_tokens', { model: 'vllm', messages, add_special_tokens: true }],
    ['invalid_request', 400, 'chat_template', { model: 'vllm', messages, chat_template: '{{ 1 }}' }],
    [
      'invalid_request',
      400,
      'continue_final_message',
      { model: 'vllm', messages, continue_final_message: true, add_generation_prompt: true },
    ],
    ['mixture_unsupported_path', 400, 'svc.mixture', { model: 'vllm', prompt: 'x', svc: { mixture: {} } }],
    ['node_pin_forbidden', 403, 'svc.node_id', { model: 'vllm', prompt: 'x', svc: { node_id: 'node_of_another' } }],
    [
      'unsupported_input',
      400,
      'messages',
      { model: 'vllm', messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
    ],
  ] as const)('tokens are never invented: %s', async (code, status, param, body) => {
    expect(await pool.refused('/v1/tokenize', body)).toEqual([status, code, param])
  })

  test('what a node’s tokenizer does not take is the request’s fault, and a text without JSON the client’s', async () => {
    pool.node('vllm').answer(() => Response.json({ error: 'token id 9 is out of vocabulary' }, { status: 400 }))
    expect(await pool.refused('/v1/detokenize', { model: 'vllm', tokens: [9] })).toEqual([400, 'invalid_request', null])
    for (const tokens of [[-1], [1.5], ['a'], 'a', [2 ** 31]]) {
      expect((await pool.refused('/v1/detokenize', { model: 'vllm', tokens }))[1]).toBe('invalid_request')
    }
    expect((await pool.post('/v1/tokenize', {}, { body: '{' })).status).toBe(400)
  })

  test('a server without the path has no tokenizer', async () => {
    pool.node('sglang').answer(() => Response.json({ detail: 'Not Found' }, { status: 404 }))
    expect(await pool.refused('/v1/tokenize', { model: 'sglang', prompt: 'x' })).toEqual([
      400,
      'modality_not_supported',
      'model',
    ])
    expect((await pool.count('sglang')).svc.usage_estimated).toBe(true)
  })

  test('a pin names the one node', async () => {
    for (const [at, node] of pool.pair.entries()) {
      const before = node.calls.length
      expect((await pool.post(`/v1/tokenize?node_id=${pool.pairIds[at]}`, { model: shared, prompt: 'x' })).status).toBe(
        200,
      )
      expect(node.calls.length).toBe(before + 1)
    }
  })
})

describe('§28: what a question about tokens costs, and who learns of it', () => {
  test('it counts toward the rate alone: no slot, no quota, no receipt, no request of the list', async () => {
    const limited = await pool.gateway.customer({
      policy: { rate_limit_rpm: 3, max_concurrency: 1, daily_token_quota: 1 },
    })
    await pool.gateway.node(pool.node('vllm').url, { customerId: limited.customerId })
    const headers = { authorization: `Bearer ${limited.key}`, 'content-type': 'application/json' }
    const ask = () => pool.post('/v1/messages/count_tokens', { model: 'vllm', messages }, { headers })
    const all = await Promise.all([ask(), ask(), ask()])
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(all[0]?.headers.get('ratelimit')).toContain('"chat"')
    const last = await ask()
    expect([last.status, last.headers.get('retry-after') !== null]).toEqual([429, true])
    expect(await last.json()).toMatchObject({ type: 'error', error: { type: 'rate_limit_error' } })
    const { customerId } = limited
    const { sql } = pool.gateway.database
    expect(await sql`select 1 from receipts where customer_id = ${customerId}`).toHaveLength(0)
    const listed = await pool.gateway.admin<{ count: number }>('GET', `/v1/admin/requests?customer_id=${customerId}`)
    expect(listed.count).toBe(0)
  })

  test('nodes of others are asked only where no own one serves the model, and never one that bills', async () => {
    const other = startTokenNode({ kind: 'vllm', model: 'lent' })
    const { customerId } = await pool.gateway.customer()
    await pool.gateway.node(other.url, { customerId, visibility: 'public', privacyClass: 'public' })
    other.answer(saying(recorded.vllm))
    expect(await pool.count('lent')).toMatchObject({ input_tokens: 5, svc: { usage_estimated: false } })
    await pool.gateway.admin('PUT', '/v1/admin/models', {
      id: 'lent',
      prompt_token_price_wei: '5',
      completion_token_price_wei: '5',
    })
    const before = other.calls.length
    await waitFor('the price', async () => (await pool.count('lent')).svc.usage_estimated)
    const asked = other.calls.length
    expect(await pool.refused('/v1/tokenize', { model: 'lent', prompt: 'x' })).toEqual([
      400,
      'modality_not_supported',
      'model',
    ])
    expect(other.calls.length).toBe(asked)
    expect(asked).toBeGreaterThanOrEqual(before)
    const own = startTokenNode({ kind: 'other', model: 'lent' })
    await pool.gateway.node(own.url, { customerId: pool.customer.customerId })
    expect((await pool.count('lent')).svc.usage_estimated).toBe(true)
    expect(other.calls.length).toBe(asked)
    await own.stop()
    await other.stop()
  })

  test('a key that may not use the model has it counted by the estimate, and gets no tokens', async () => {
    const barred = await pool.gateway.customer({ policy: { denied_models: ['vllm'] } })
    await pool.gateway.node(pool.node('vllm').url, { customerId: barred.customerId })
    const headers = { authorization: `Bearer ${barred.key}`, 'content-type': 'application/json' }
    const before = pool.node('vllm').calls.length
    const counted = await pool.post('/v1/messages/count_tokens', { model: 'vllm', messages }, { headers })
    expect(await counted.json()).toMatchObject({ svc: { usage_estimated: true } })
    const tokens = await pool.post('/v1/tokenize', { model: 'vllm', prompt: 'x' }, { headers })
    expect([tokens.status, await tokens.json()]).toMatchObject([403, { error: { code: 'model_not_allowed' } }])
    expect(pool.node('vllm').calls.length).toBe(before)
  })

  test('how a tokenizer fails does not count against its node', async () => {
    for (const node of pool.pair) node.answer(() => Response.json({}, { status: 500 }))
    for (let at = 0; at < 10; at++) await pool.count(shared)
    for (const id of pool.pairIds) {
      const path = `/v1/admin/nodes/${id}`
      const node = await pool.gateway.admin<{ state: string; runtimes: { models: Json[] }[] }>('GET', path)
      expect(node.state).toBe('ready')
      expect(node.runtimes[0]?.models).toMatchObject([{ in_flight: 0, times_ejected: 0, ejected_until: null }])
    }
  })

  test('the node’s key goes to the node alone', async () => {
    const locked = startTokenNode({ kind: 'vllm', model: 'locked' })
    await pool.gateway.node(locked.url, { customerId: pool.customer.customerId, apiKey: 'key-of-the-node' })
    locked.answer(saying(recorded.vllm))
    expect(await pool.count('locked')).toMatchObject({ input_tokens: 5 })
    expect(locked.calls.at(-1)?.headers.get('authorization')).toBe('Bearer key-of-the-node')
    await locked.stop()
  })

  test('errors are of the interface that is spoken', async () => {
    const headers = { authorization: 'Bearer nonsense', 'content-type': 'application/json' }
    for (const base of ['/v1', '/v1/api']) {
      const anthropic = await pool.post(`${base}/messages/count_tokens`, { model: 'vllm', messages }, { headers })
      expect(anthropic.headers.get('content-type')).toStartWith('application/json')
      expect([anthropic.status, await anthropic.json()]).toMatchObject([
        401,
        { type: 'error', error: { type: 'authentication_error' } },
      ])
      for (const path of ['/responses/input_tokens', '/tokenize', '/detokenize']) {
        const openai = await pool.post(base + path, { model: 'vllm', input: 'x' }, { headers })
        expect(openai.headers.get('content-type')).toStartWith('application/json')
        expect([openai.status, await openai.json()]).toMatchObject([401, { error: { code: 'invalid_api_key' } }])
      }
    }
  })
})
