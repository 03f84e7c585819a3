import { beforeEach, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { recorded, saying, type TokenScript } from '../../support/nodes/token-node.ts'
import { messages, shared, startTokenPool, tokenCounts, tokenKinds } from '../../support/pools/token-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const pool = await fixture(startTokenPool())

beforeEach(() => pool.reset())

describe('§28: a count by the node’s own tokenizer', () => {
  test.each(tokenKinds)('%s counts a chat', async (kind) => {
    const said = await pool.count(kind)
    expect(said).toMatchObject({ input_tokens: tokenCounts[kind], svc: { usage_estimated: false, runtime_kind: kind } })
  })

  test('the SDKs of OpenAI and Anthropic count', async () => {
    const anthropic = new Anthropic({ baseURL: pool.gateway.url, apiKey: pool.customer.key })
    const counted = await anthropic.messages.countTokens({ model: 'vllm', messages: [{ role: 'user', content: 'hi' }] })
    expect(counted.input_tokens).toBe(5)
    expect(counted._request_id).toMatch(/^req_/)
    const openai = new OpenAI({ baseURL: `${pool.gateway.url}/v1`, apiKey: pool.customer.key })
    const input = await openai.responses.inputTokens.count({ model: 'vllm', input: 'hi', instructions: 'Be brief.' })
    expect(input).toMatchObject({ object: 'response.input_tokens', input_tokens: 5 })
    expect(pool.node('vllm').calls.at(-1)?.body.messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
    ])
  })

  test('a server is sent what its template reads, under its own name for the model, and nothing else', async () => {
    const tool = { name: 'weather', description: 'Tell', input_schema: { type: 'object', properties: {} } }
    const asked = { tools: [tool], metadata: { user_id: 'u' }, thinking: { type: 'disabled' }, temperature: 1 }
    await pool.count('vllm', asked)
    const { path, body } = pool.node('vllm').calls.at(-1) ?? { path: '', body: {} }
    expect([path, Object.keys(body).sort()]).toEqual([
      '/tokenize',
      ['chat_template_kwargs', 'messages', 'model', 'return_token_strs', 'tools'],
    ])
    expect(body).toMatchObject({ model: 'vllm', messages, chat_template_kwargs: { enable_thinking: false } })
    await pool.count('llama.cpp', asked)
    const [template, text] = pool.node('llama.cpp').calls.slice(-2)
    expect(template?.path).toBe('/apply-template')
    expect(template?.body).toMatchObject({ messages, chat_template_kwargs: { enable_thinking: false } })
    expect(text?.body).toEqual({
      model: 'llama.cpp',
      content: recorded['llama.cpp']['/apply-template'].prompt,
      add_special: true,
      with_pieces: false,
    })
  })

  test.each([
    ['no tokenizer', 'other', {}],
    ['a model that is not in memory', 'unloaded', {}],
    ['an unknown model', 'nothing', {}],
    ['a mixture', 'vllm', { svc: { mixture: { strategy: 'vote', experts: [{ model: 'vllm' }, { model: 'vllm' }] } } }],
    [
      'a picture',
      'vllm',
      {
        messages: [
          {
            role: 'user',
            content: [{ type: 'image', source: { type: 'url', url: 'https://pictures.example/a.png' } }],
          },
        ],
      },
    ],
  ])('%s: the estimate, which says so, and no node learns of it', async (_, model, more) => {
    const before = pool.nodes.map(({ calls }) => calls.length)
    const { input_tokens, svc } = await pool.count(model, more)
    expect(input_tokens).toBeGreaterThan(5)
    expect(svc).toEqual({ request_id: expect.any(String), usage_estimated: true } as never)
    expect(pool.nodes.map(({ calls }) => calls.length)).toEqual(before)
  })

  test('OpenAI asks without a model, and of nothing there is nothing', async () => {
    expect(await pool.told('/v1/responses/input_tokens', { input: 'hello there' })).toMatchObject({
      object: 'response.input_tokens',
      svc: { usage_estimated: true },
    })
    expect(await pool.told('/v1/responses/input_tokens', {})).toMatchObject({ input_tokens: 0 })
    expect(await pool.refused('/v1/responses/input_tokens', { model: 'vllm', previous_response_id: 'resp_1' })).toEqual(
      [400, 'responses_not_stored', 'previous_response_id'],
    )
  })

  const numbers = (length: number) => Array.from({ length }, () => 7)
  const hostile: readonly (readonly [string, TokenScript])[] = [
    ['no JSON', () => new Response('{"tokens":[1,2')],
    ['another shape', () => Response.json([1, 2, 3])],
    ['tokens that are texts', () => Response.json({ count: 2, tokens: ['a', 'b'] })],
    ['negative tokens', () => Response.json({ count: 2, tokens: [1, -2] })],
    ['a negative count', () => Response.json({ count: -2, tokens: [1, 2] })],
    ['a count of another list', () => Response.json({ count: 3_000_000, tokens: [1, 2] })],
    ['a token beyond all vocabularies', () => Response.json({ count: 1, tokens: [2 ** 31] })],
    ['parts of tokens', () => new Response('{"count":2,"tokens":[1.5,2]}')],
    ['numbers without commas', () => new Response('{"count":2,"tokens":[1 2]}')],
    ['more tokens than fit', () => new Response(`{"count":1000001,"tokens":[${numbers(1_000_001).join()}]}`)],
    ['20 MB', () => new Response(`{"count":1,"tokens":[1],"x":"${'x'.repeat(20_000_000)}"}`)],
    ['nesting without end', () => new Response(`{"count":1,"tokens":[1],"x":${'['.repeat(100_000)}`)],
    ['an error', () => Response.json({ error: 'no' }, { status: 500 })],
    ['a redirect', () => new Response(null, { status: 302, headers: { location: 'http://127.0.0.1:1/' } })],
  ]
  test.each(hostile)('what is no count is none: %s', async (_, script) => {
    for (const node of pool.pair) node.answer(script)
    const before = pool.pair.map(({ calls }) => calls.length)
    expect((await pool.count(shared)).svc.usage_estimated).toBe(true)
    // One node, and one other.
    expect(pool.pair.map(({ calls }, at) => calls.length - (before[at] ?? 0))).toEqual([1, 1])
    expect(await pool.refused('/v1/tokenize', { model: shared, prompt: 'x' })).toEqual([502, 'upstream_error', null])
  })

  test('a long prompt is counted: its list is longer than other arrays may be', async () => {
    pool.node('vllm').answer(() => Response.json({ count: 300_000, max_model_len: 1, tokens: numbers(300_000) }))
    expect(await pool.count('vllm')).toMatchObject({ input_tokens: 300_000, svc: { usage_estimated: false } })
  })

  test('where one node fails, one other is asked', async () => {
    for (const failing of pool.pair) {
      for (const node of pool.pair) node.answer(saying(recorded.vllm))
      failing.answer(() => Response.json({}, { status: 500 }))
      expect(await pool.count(shared)).toMatchObject({ input_tokens: 5, svc: { usage_estimated: false } })
    }
  })

  test('a client that leaves ends the question, and no other node is asked', async () => {
    const arrived = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<void>()
    for (const node of pool.pair) {
      node.answer(async ({ signal }) => {
        signal.addEventListener('abort', () => gone.resolve())
        arrived.resolve()
        await gone.promise
        return Response.json({})
      })
    }
    const before = pool.pair.map(({ calls }) => calls.length)
    const leaving = new AbortController()
    const asking = pool
      .post('/v1/messages/count_tokens', { model: shared, messages }, { signal: leaving.signal })
      .catch((error: unknown) => error)
    await arrived.promise
    leaving.abort()
    expect(await asking).toMatchObject({ name: 'AbortError' })
    await gone.promise
    const after = pool.pair.reduce((sum, { calls }, at) => sum + calls.length - (before[at] ?? 0), 0)
    expect(after).toBe(1)
  })
})
