import { afterEach, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { Value } from '@sinclair/typebox/value'
import { ChatCompletion } from '../../../src/protocol/wire/inference/chat.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { nodeUsage, type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'

const secret = 'the-prompt-nobody-may-see'
const leak = '/srv/secret-of-the-node'

const gateway = await fixture(startTestGateway({ env: { SVC_RECEIPT_FLUSH_MS: '5', SVC_FAILOVER_ROUTES_MAX: '2' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
const nodeId = await gateway.node(node.url, { customerId: customer.customerId, nodeClass: 'home' })

afterEach(() => node.answer(null))

const message = { role: 'assistant', content: 'Hi' }
const choice = { index: 0, message, finish_reason: 'stop' }
/** As a real server would write it, with all that it should keep to itself. */
const completion = (more: object = {}) => ({
  id: 'chatcmpl-of-the-node',
  object: 'chat.completion',
  created: 5,
  model: `${leak}/weights.gguf`,
  system_fingerprint: leak,
  timings: { host: leak },
  service_tier: leak,
  choices: [choice],
  usage: nodeUsage,
  ...more,
})

interface Answer {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly choices: readonly unknown[]
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number }
  readonly svc: Readonly<Record<string, unknown>>
}

const ask = (body: object = {}) =>
  gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content: secret }], ...body })

async function answered(body: object, script: (call: ScriptedCall) => void | Promise<void>) {
  node.answer(script)
  const response = await ask(body)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
  expect(text).not.toContain(leak)
  const answer = JSON.parse(text) as Answer
  expect([...Value.Errors(ChatCompletion, answer)].map(({ path, message: why }) => `${path} ${why}`)).toEqual([])
  return { response, answer }
}

const answeredWith = (body: object) => answered({}, (call) => call.respond(200, body))

describe('§5: the answer', () => {
  test('has these keys and no others; nothing of the node’s own names', async () => {
    const before = Math.floor(Date.now() / 1_000)
    const { response, answer } = await answeredWith(completion())
    expect(Object.keys(answer)).toEqual(['id', 'object', 'created', 'model', 'choices', 'usage', 'svc'])
    expect(answer.id).toMatch(/^chatcmpl-[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(answer).toMatchObject({ object: 'chat.completion', model: 'm', choices: [choice], usage: nodeUsage })
    expect(answer.created).toBeGreaterThanOrEqual(before)
    expect(answer.created).toBeLessThanOrEqual(Date.now() / 1_000)
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    for (const header of ['x-should-retry', 'retry-after', 'set-cookie', 'server', 'content-encoding']) {
      expect([header, response.headers.get(header)]).toEqual([header, null])
    }
  })

  test('two answers never share an id', async () => {
    const ids = await Promise.all([1, 2, 3].map(async () => (await answeredWith(completion())).answer.id))
    expect(new Set(ids).size).toBe(3)
  })

  test('§9: by an alias: the node hears its own name, the client the one it asked for', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'pool/public-name', aliases: ['m', 'other-name'] })
    try {
      for (const model of ['pool/public-name', 'other-name', 'm']) {
        node.answer((call) => call.respond(200, completion()))
        await waitFor('the alias', async () => (await ask({ model })).status === 200)
        let named: unknown
        const { answer } = await answered({ model }, (call) => {
          named = call.body.model
          call.respond(200, completion())
        })
        expect([answer.model, named]).toEqual([model, 'm'])
      }
    } finally {
      await gateway.admin('DELETE', '/v1/admin/models', { id: 'pool/public-name' })
      await waitFor('the end of the alias', async () => (await ask({ model: 'pool/public-name' })).status === 404)
    }
  })

  test.each([
    ['text', { role: 'assistant', content: 'ä"\\\n\u0000🙂' }],
    [
      'tool calls',
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a": 1}' } }],
      },
    ],
    ['reasoning', { role: 'assistant', content: 'x', reasoning_content: 'because', reasoning: 'since' }],
    ['a refusal', { role: 'assistant', content: null, refusal: 'no' }],
    [
      'what comes next',
      { role: 'assistant', content: [{ type: 'text', text: 'x' }], audio: { id: 'a' }, brand_new: [1, { x: null }] },
    ],
  ] as const)('the message goes through verbatim: %s', async (_name, verbatim) => {
    const { answer } = await answeredWith(completion({ choices: [{ ...choice, message: verbatim }] }))
    expect(answer.choices).toEqual([{ ...choice, message: verbatim }])
  })

  test('of a choice only index, message, finish_reason and logprobs', async () => {
    const logprobs = { content: [{ token: 'Hi', logprob: -0.5, bytes: null, top_logprobs: [] }] }
    const given = { ...choice, logprobs, stop_reason: leak, token_ids: [1], content_filter_results: { a: leak } }
    const { answer } = await answeredWith(completion({ choices: [given] }))
    expect(answer.choices).toEqual([{ ...choice, logprobs }])
    const without = await answeredWith(completion({ choices: [{ ...choice, logprobs: null }] }))
    expect(without.answer.choices).toEqual([choice])
  })

  test.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'tool_calls'],
    ['content_filter', 'content_filter'],
    ['eos_token', 'stop'],
    ['', 'stop'],
    [null, 'stop'],
  ])('finish_reason %p is told as %s', async (given, told) => {
    const { answer } = await answeredWith(completion({ choices: [{ ...choice, finish_reason: given }] }))
    expect(answer.choices).toEqual([{ ...choice, finish_reason: told }])
  })
})

describe('§5: usage', () => {
  test('the sum is ours, details stay behind', async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 99, prompt_tokens_details: { cached: leak } }
    const { answer } = await answeredWith(completion({ usage }))
    expect(answer.usage).toEqual({ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 })
    expect('usage_estimated' in answer.svc).toBe(false)
  })

  test.each([
    ['absent', undefined],
    ['null', null],
    ['half', { prompt_tokens: 3 }],
    ['nonsense', { prompt_tokens: -3, completion_tokens: 'x' }],
  ])('%s: estimated, and said so', async (_name, usage) => {
    const content = 'abcdefghij漢字'
    const verbatim = { role: 'assistant', content, reasoning_content: 'x'.repeat(10) }
    const { answer } = await answeredWith(completion({ usage, choices: [{ ...choice, message: verbatim }] }))
    const prompt = Math.ceil(3 + 4 + 0.3 * secret.length)
    const spoken = Math.ceil(3 + 2.4 + 3)
    expect(answer.usage).toEqual({ prompt_tokens: prompt, completion_tokens: spoken, total_tokens: prompt + spoken })
    expect(answer.svc.usage_estimated).toBe(true)
  })
})

describe('§5: svc', () => {
  test('six fields; the receipt is in the database with what they say', async () => {
    const { response, answer } = await answered({ svc: { job_id: 'job-7' } }, async (call) => {
      await lasts(30)
      call.respond(200, completion())
    })
    const { svc } = answer
    expect(Object.keys(svc).sort()).toEqual(
      ['latency_ms', 'receipt_hash', 'request_id', 'runtime_id', 'runtime_kind', 'ttft_ms'].sort(),
    )
    expect(svc.runtime_id).toMatch(/^rt_[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(svc.runtime_kind).toBe('openai')
    expect(svc.request_id).toBe(response.headers.get('x-request-id'))
    expect(svc.receipt_hash).toMatch(/^0x[0-9a-f]{64}$/)
    expect(Number.isInteger(svc.latency_ms) && Number.isInteger(svc.ttft_ms)).toBe(true)
    expect(Number(svc.ttft_ms)).toBeGreaterThanOrEqual(25)
    expect(Number(svc.latency_ms)).toBeGreaterThanOrEqual(Number(svc.ttft_ms))
    const [row] = await waitFor('the receipt', async () => {
      const rows = await gateway.database.sql`select * from receipts where receipt_hash = ${String(svc.receipt_hash)}`
      return rows.length > 0 ? [...rows] : null
    })
    expect(row).toMatchObject({
      issuer: 'gateway',
      request_id: svc.request_id,
      job_id: 'job-7',
      kind: 'hosted_chat',
      node_id: nodeId,
      node_class: 'home',
      runtime_id: svc.runtime_id,
      runtime_kind: 'openai',
      model_id: 'm',
      prompt_tokens: 9,
      completion_tokens: 2,
      customer_id: customer.customerId,
      status: 'accepted',
    })
  })

  test('ttft_ms is the node’s first byte, latency_ms the last', async () => {
    const { answer } = await answered({}, async (call) => {
      call.open({ 'content-type': 'application/json' })
      const text = JSON.stringify(completion())
      await call.raw(text.slice(0, 20))
      await lasts(400)
      await call.raw(text.slice(20))
      call.end()
    })
    expect(Number(answer.svc.latency_ms) - Number(answer.svc.ttft_ms)).toBeGreaterThanOrEqual(100)
  })
})

describe('§5: shapes of a node’s body', () => {
  test('gzip, although identity was asked for', async () => {
    const { answer } = await answered({}, (call) => {
      call.open({ 'content-type': 'application/json', 'content-encoding': 'gzip' })
      void call.raw(gzipSync(JSON.stringify(completion()))).then(() => call.end())
    })
    expect(answer.choices).toEqual([choice])
  })

  test('chunked, cut in the middle of a character', async () => {
    const verbatim = { ...message, content: '漢字🙂' }
    const { answer } = await answered({}, async (call) => {
      call.open({ 'content-type': 'application/json' })
      for (const byte of Buffer.from(JSON.stringify(completion({ choices: [{ ...choice, message: verbatim }] })))) {
        await call.raw(Uint8Array.of(byte))
      }
      call.end()
    })
    expect(answer.choices).toEqual([{ ...choice, message: verbatim }])
  })

  test('large', async () => {
    const content = 'x'.repeat(8 * 1024 * 1024)
    const { answer } = await answeredWith(completion({ choices: [{ ...choice, message: { ...message, content } }] }))
    expect(answer.choices).toEqual([{ ...choice, message: { ...message, content } }])
  })
})
