import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { Value } from '@sinclair/typebox/value'
import { ChatChunk } from '../../src/protocol/wire/chat.ts'
import { EventStreamReader, type ReadStream, readStream } from '../support/event-stream.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateway.ts'
import {
  nodeChunk,
  nodeUsage,
  type ScriptedCall,
  type ScriptedNode,
  startScriptedNode,
} from '../support/scripted-node.ts'

const leak = '/srv/secret-of-the-node'
const prompt = 'hello there'

let gateway: TestGateway
let node: ScriptedNode
let customer: TestCustomer
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_FINISH_HOLD_MS: '300', SVC_RECEIPT_FLUSH_MS: '5' } })
  customer = await gateway.customer()
  node = startScriptedNode('m')
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})
afterEach(() => node.answer(null))

const ask = (body: object = {}) =>
  gateway.chat(customer.key, { model: 'm', stream: true, messages: [{ role: 'user', content: prompt }], ...body })
const askUsage = { stream_options: { include_usage: true } }

/** A node that writes the given blocks at once and ends. */
const writes =
  (...blocks: readonly (string | object)[]) =>
  async (call: ScriptedCall) => {
    call.open()
    for (const block of blocks) {
      if (typeof block === 'string') await call.raw(block)
      else await call.event(block)
    }
    call.end()
  }

async function streamed(script: (call: ScriptedCall) => void | Promise<void>, body: object = {}) {
  node.answer(script)
  const response = await ask(body)
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  const stream = await readStream(response)
  expect(stream.text).not.toContain(leak)
  for (const chunk of stream.chunks) {
    if (chunk.error === undefined) expect([...Value.Errors(ChatChunk, chunk)]).toEqual([])
  }
  return { ...stream, response }
}

const role = nodeChunk({ role: 'assistant', content: '' })
const text = (content: string) => nodeChunk({ content })
const finish = nodeChunk({}, 'stop')
const usage = { ...nodeChunk({}), choices: [], usage: nodeUsage }
const done = 'data: [DONE]\n\n'
const usual = [role, text('Hi'), finish, usage, done] as const
const deltas = ({ chunks }: Pick<ReadStream, 'chunks'>) =>
  chunks.flatMap(({ choices }) => choices.map(({ delta, finish_reason }) => [delta, finish_reason] as const))

describe('§6: the framing', () => {
  test('headers', async () => {
    const { response } = await streamed(writes(...usual))
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(response.headers.get('cache-control')).toBe('no-cache, no-transform')
    expect(response.headers.get('x-accel-buffering')).toBe('no')
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9A-HJKMNP-TV-Z]{26}$/)
    for (const header of ['x-should-retry', 'content-encoding']) {
      expect([header, response.headers.get(header)]).toEqual([header, null])
    }
  })

  test('the literal stream, byte for byte', async () => {
    const { text: whole, chunks, last } = await streamed(writes(...usual))
    const [{ id, created } = { id: '', created: 0 }] = chunks
    const head = `{"id":"${id}","object":"chat.completion.chunk","created":${created},"model":"m","choices":`
    expect(whole).toBe(
      [
        `data: ${head}[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
        `data: ${head}[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}`,
        `data: ${head}[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":${JSON.stringify(nodeUsage)},"svc":${JSON.stringify(last.svc)}}`,
        'data: [DONE]',
        '',
      ].join('\n\n'),
    )
  })

  test('one id, object, created and model on all chunks, none of them the node’s', async () => {
    for (const options of [{}, askUsage]) {
      const before = Math.floor(Date.now() / 1_000)
      const { chunks } = await streamed(
        writes(role, ...Array.from({ length: 20 }, (_, i) => text(`${i}`)), finish, usage, done),
        options,
      )
      const heads = new Set(
        chunks.map(({ id, object, created, model }) => JSON.stringify([id, object, created, model])),
      )
      expect(heads.size).toBe(1)
      const [{ id, object, created, model } = { id: '', object: '', created: 0, model: '' }] = chunks
      expect(id).toMatch(/^chatcmpl-[0-9A-HJKMNP-TV-Z]{26}$/)
      expect([object, model]).toEqual(['chat.completion.chunk', 'm'])
      expect(created).toBeGreaterThanOrEqual(before)
    }
  })

  const lines = usual
    .map((block) => (typeof block === 'string' ? block : `data: ${JSON.stringify(block)}\n\n`))
    .join('')
  test.each([
    ['CRLF', lines.replaceAll('\n', '\r\n')],
    ['no space after the colon', lines.replaceAll('data: ', 'data:')],
    ['comments between and within', lines.replaceAll('data: ', ': PROCESSING\n\n: x\ndata: ')],
    ['event, id and retry fields', lines.replaceAll('data: ', 'event: message\nid: 1\nretry: 5\ndata: ')],
    ['data over several lines', lines.replaceAll('"choices":', '\ndata: "choices":')],
  ])('a node with %s: the client sees only data and two line feeds', async (_name, raw) => {
    const { content, done: ended, blocks } = await streamed(writes(raw))
    expect([content, ended, blocks.length]).toEqual(['Hi', true, 4])
  })

  test('whatever the cuts between the node’s writes', async () => {
    const bytes = Buffer.from(lines.replace('"Hi"', '"H 漢🙂 i"'))
    const { content } = await streamed(async (call) => {
      call.open()
      for (let at = 0; at < bytes.length; at += 7) await call.raw(bytes.subarray(at, at + 7))
      call.end()
    })
    expect(content).toBe('H 漢🙂 i')
  })

  test('gzip, although identity was asked for', async () => {
    const { content, done: ended } = await streamed(async (call) => {
      call.open({ 'content-encoding': 'gzip' })
      await call.raw(gzipSync(lines))
      call.end()
    })
    expect([content, ended]).toEqual(['Hi', true])
  })

  test('a chunk of 4 MiB', async () => {
    const large = '漢"\\'.repeat(500_000)
    const { content } = await streamed(writes(role, text('a'), text(large), text('b'), finish, usage, done))
    expect(content).toBe(`a${large}b`)
  })
})

describe('§6: chunk by chunk', () => {
  test('each one is with the client before the node sends the next', async () => {
    const arriving = node.next()
    const asking = ask()
    const call = await arriving
    call.open()
    await call.event(role)
    const reader = new EventStreamReader(await asking)
    expect((await reader.chunk()).choices).toEqual([
      { index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null },
    ])
    for (let k = 0; k < 40; k++) {
      await call.event(text(`${k} `))
      expect((await reader.chunk()).choices[0]?.delta).toEqual({ content: `${k} ` })
    }
    await call.event(finish)
    await call.event(usage)
    // The terminal chunk waits neither for [DONE] nor for the end of the node’s body.
    expect((await reader.chunk()).usage).toEqual(nodeUsage)
    expect(await reader.rest()).toEqual(['data: [DONE]'])
    await call.raw(done)
    call.end()
  })

  test('several in one write of the node stay several, in order', async () => {
    const many = Array.from({ length: 50 }, (_, i) => `data: ${JSON.stringify(text(`${i} `))}\n\n`).join('')
    const { chunks, content } = await streamed(writes(role, many, finish, usage, done))
    expect(content).toBe(Array.from({ length: 50 }, (_, i) => `${i} `).join(''))
    expect(chunks).toHaveLength(52)
  })

  test('include_usage: the finish chunk does not wait for the usage', async () => {
    const arriving = node.next()
    const asking = ask(askUsage)
    const call = await arriving
    call.open()
    await call.event(text('x'))
    const reader = new EventStreamReader(await asking)
    await reader.chunk()
    await reader.chunk()
    await call.event(finish)
    const last = await reader.chunk()
    expect(last.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
    expect([last.usage, last.svc]).toEqual([undefined, undefined])
    await call.event(usage)
    expect((await reader.chunk()).usage).toEqual(nodeUsage)
    expect(await reader.rest()).toEqual(['data: [DONE]'])
    call.end()
  })
})

describe('§6: the first chunk carries the role', () => {
  const synthetic = [{ role: 'assistant', content: '' }, null] as const
  test.each([
    [
      'synthesised where the node starts with text',
      [text('a'), finish, usage],
      [synthetic, [{ content: 'a' }, null], [{}, 'stop']],
    ],
    [
      'the node’s own is kept',
      [nodeChunk({ role: 'assistant', content: null }), finish, usage],
      [
        [{ role: 'assistant', content: null }, null],
        [{}, 'stop'],
      ],
    ],
    [
      'with text in it',
      [nodeChunk({ role: 'assistant', content: 'a' }), finish, usage],
      [
        [{ role: 'assistant', content: 'a' }, null],
        [{}, 'stop'],
      ],
    ],
    [
      'role alone',
      [nodeChunk({ role: 'assistant' }), text('a'), finish, usage],
      [
        [{ role: 'assistant' }, null],
        [{ content: 'a' }, null],
        [{}, 'stop'],
      ],
    ],
    [
      'an answer that is only its finish chunk',
      [nodeChunk({ content: 'all' }, 'stop'), usage],
      [synthetic, [{ content: 'all' }, 'stop']],
    ],
    [
      'repeated by the node in every chunk',
      [role, nodeChunk({ role: 'assistant', content: 'a' }), finish, usage],
      [synthetic, [{ role: 'assistant', content: 'a' }, null], [{}, 'stop']],
    ],
  ] as const)('%s', async (_name, given, told) => {
    expect(deltas(await streamed(writes(...given, done)))).toEqual(told.map(([delta, reason]) => [delta, reason]))
  })
})

describe('§5, §6: what goes through verbatim and what stays behind', () => {
  const call0 = { index: 0, id: 'call_1', type: 'function', function: { name: 'look', arguments: '' } }
  const verbatim = [
    { reasoning_content: 'let me think "\\\n' },
    { reasoning: 'more' },
    { content: null, tool_calls: [call0] },
    { tool_calls: [{ index: 0, function: { arguments: '{"a": 1' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '}' } }] },
    { refusal: 'no' },
    { content: [{ type: 'text', text: 'parts' }] },
    { brand_new: { x: [1, null] } },
    {},
    { content: '\u0000\u2028 "quoted" \\ \ud83d\ude42' },
  ]
  test('every delta', async () => {
    const stream = await streamed(writes(role, ...verbatim.map((delta) => nodeChunk(delta)), finish, usage, done))
    expect(deltas(stream).slice(1, -1)).toEqual(verbatim.map((delta) => [delta, null]))
  })

  test('the node’s own keys, in chunks, choices and usage', async () => {
    const dress = (chunk: object) => ({
      ...chunk,
      id: leak,
      model: leak,
      system_fingerprint: leak,
      timings: { host: leak },
      service_tier: leak,
      obfuscation: leak,
      prompt_token_ids: [leak],
    })
    const logprobs = { content: [{ token: 'Hi', logprob: -1 }] }
    const odd = { index: 0, delta: { content: 'Hi' }, finish_reason: null, logprobs, stop_reason: leak, token_ids: [1] }
    const last = { index: 0, delta: {}, finish_reason: 'stop', logprobs: null, matched_stop: leak }
    const { chunks } = await streamed(
      writes(
        dress(role),
        dress({ ...text(''), choices: [odd] }),
        dress({ ...text(''), choices: [odd] }),
        dress({ ...text(''), choices: [last] }),
        dress({ ...usage, usage: { ...nodeUsage, prompt_tokens_details: { x: leak } } }),
        done,
      ),
    )
    expect(chunks[1]?.choices).toEqual([{ index: 0, delta: { content: 'Hi' }, finish_reason: null, logprobs }])
    expect(chunks[2]?.choices).toEqual([{ index: 0, delta: { content: 'Hi' }, finish_reason: null, logprobs }])
    expect(chunks.at(-1)?.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
    for (const chunk of chunks) {
      const allowed = [
        'id',
        'object',
        'created',
        'model',
        'choices',
        ...(chunk === chunks.at(-1) ? ['usage', 'svc'] : []),
      ]
      expect(Object.keys(chunk)).toEqual(allowed)
    }
  })

  test.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'tool_calls'],
    ['content_filter', 'content_filter'],
    ['eos_token', 'stop'],
    ['abort', 'stop'],
  ])('finish_reason %s is told as %s', async (given, told) => {
    for (const options of [{}, askUsage]) {
      const { chunks } = await streamed(writes(role, nodeChunk({}, given), usage, done), options)
      expect(chunks[1]?.choices[0]?.finish_reason).toBe(told)
    }
  })

  test('a line that is no JSON is skipped', async () => {
    const broken = ['data: {"choices":[{\n\n', 'data: nonsense\n\n', 'data:\n\n', 'nonsense\n\n', 'data: 5\n\n']
    const { content, done: ended } = await streamed(writes(role, text('a'), ...broken, text('b'), finish, usage, done))
    expect([content, ended]).toEqual(['ab', true])
  })
})

describe('§6: the terminal chunk', () => {
  test('include_usage not sent: one chunk with the finish, usage and svc', async () => {
    for (const options of [{}, { stream_options: { include_usage: false } }, { stream_options: null }]) {
      const { chunks, last } = await streamed(writes(...usual), options)
      expect(last.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
      expect(last.usage).toEqual(nodeUsage)
      expect(chunks.filter((chunk) => chunk.usage !== undefined || chunk.svc !== undefined)).toHaveLength(1)
    }
  })

  test('include_usage sent: the finish chunk as it is, then one without choices', async () => {
    const { chunks } = await streamed(writes(...usual), askUsage)
    const [before, last] = chunks.slice(-2)
    expect(before?.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
    expect(Object.keys(before ?? {})).toEqual(['id', 'object', 'created', 'model', 'choices'])
    expect([last?.choices, last?.usage]).toEqual([[], nodeUsage])
    expect(Object.keys(last ?? {})).toEqual(['id', 'object', 'created', 'model', 'choices', 'usage', 'svc'])
  })

  test('the delta and logprobs of the finish chunk are kept, both ways', async () => {
    const logprobs = { content: [] }
    const choices = [{ index: 0, delta: { content: ' the end' }, finish_reason: 'length', logprobs }]
    for (const options of [{}, askUsage]) {
      const { chunks, content } = await streamed(
        writes(role, text('This is'), { ...finish, choices }, usage, done),
        options,
      )
      expect(content).toBe('This is the end')
      expect(chunks.find((chunk) => chunk.choices[0]?.finish_reason === 'length')?.choices).toEqual(choices)
    }
  })

  test('svc: six fields, and the receipt is in the database', async () => {
    const { last, response } = await streamed(async (call) => {
      call.open()
      await call.event(role)
      await Bun.sleep(60)
      await call.event(text('x'))
      await Bun.sleep(60)
      await call.event(finish)
      await call.event(usage)
      call.end()
    })
    const svc = last.svc ?? {}
    expect(Object.keys(svc).sort()).toEqual(
      ['latency_ms', 'receipt_hash', 'request_id', 'runtime_id', 'runtime_kind', 'ttft_ms'].sort(),
    )
    expect(svc.request_id).toBe(response.headers.get('x-request-id'))
    expect(svc.runtime_kind).toBe('openai')
    // To the first content, not to the role.
    expect(Number(svc.ttft_ms)).toBeGreaterThanOrEqual(50)
    expect(Number(svc.latency_ms) - Number(svc.ttft_ms)).toBeGreaterThanOrEqual(50)
    const [row] = await waitFor('the receipt', async () => {
      const rows = await gateway.database.sql`select * from receipts where receipt_hash = ${String(svc.receipt_hash)}`
      return rows.length > 0 ? [...rows] : null
    })
    expect(row).toMatchObject({ request_id: svc.request_id, prompt_tokens: 9, completion_tokens: 2, model_id: 'm' })
  })
})

describe('§5, §6: usage', () => {
  const estimate = Math.ceil(3 + 4 + 0.3 * prompt.length)
  const usageOf = ({ last }: Pick<ReadStream, 'last'>) => [last.usage, last.svc?.usage_estimated]
  const other = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }

  test.each([
    ['on the finish chunk', [role, text('a'), { ...finish, usage: nodeUsage }, done]],
    ['on a chunk of its own', [role, text('a'), finish, usage, done]],
    ['after [DONE] was forgotten', [role, text('a'), finish, usage]],
    [
      'on a chunk that still has a choice',
      [role, text('a'), finish, { ...nodeChunk({}, 'stop'), usage: nodeUsage }, done],
    ],
    ['twice, the first one counts', [role, text('a'), finish, usage, { ...usage, usage: other }, done]],
    [
      'as a running count, the last one counts',
      [role, { ...text('a'), usage: other }, { ...text('b'), usage: other }, finish, usage, done],
    ],
    ['before the finish chunk only', [role, { ...text('a'), usage: nodeUsage }, finish, done]],
  ] as const)('%s', async (_name, blocks) => {
    for (const options of [{}, askUsage]) {
      const stream = await streamed(writes(...blocks), options)
      expect(usageOf(stream)).toEqual([nodeUsage, undefined])
      expect(stream.chunks.filter((chunk) => chunk.usage !== undefined)).toHaveLength(1)
      expect(stream.done).toBe(true)
    }
  })

  test('late, within the time for it', async () => {
    for (const options of [{}, askUsage]) {
      const stream = await streamed(async (call) => {
        call.open()
        for (const chunk of [role, text('a'), finish]) await call.event(chunk)
        await Bun.sleep(120)
        await call.event(usage)
        call.end()
      }, options)
      expect(usageOf(stream)).toEqual([nodeUsage, undefined])
    }
  })

  test.each([
    ['absent, [DONE] ends the wait', [role, text('漢字 ab'), finish, done]],
    ['absent, the end of the body ends the wait', [role, text('漢字 ab'), finish]],
    ['nonsense', [role, text('漢字 ab'), { ...finish, usage: { prompt_tokens: 'x' } }, done]],
  ] as const)('%s: estimated, and said so', async (_name, blocks) => {
    const began = performance.now()
    for (const options of [{}, askUsage]) {
      const stream = await streamed(writes(...blocks), options)
      const spoken = Math.ceil(2.4 + 0.9)
      const told = { prompt_tokens: estimate, completion_tokens: spoken, total_tokens: estimate + spoken }
      expect(usageOf(stream)).toEqual([told, true])
      expect(stream.done).toBe(true)
    }
    expect(performance.now() - began).toBeLessThan(300)
  })

  test.each([
    ['and comes too late', true],
    ['and never comes', false],
  ])('the node keeps the stream open, %s: estimated after the time for it', async (_name, late) => {
    const arriving = node.next()
    const asking = ask()
    const call = await arriving
    call.open()
    for (const chunk of [role, text('a'), finish]) await call.event(chunk)
    const began = performance.now()
    const stream = await readStream(await asking)
    expect(performance.now() - began).toBeGreaterThanOrEqual(250)
    expect([stream.last.svc?.usage_estimated, stream.done]).toEqual([true, true])
    if (late) {
      await call.event(usage)
      call.end()
    } else {
      // Nobody listens any more: the gateway lets go of the node.
      await call.gone
    }
  })

  test('reasoning and tool calls count for the estimate', async () => {
    const calls = [{ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }]
    const blocks = [
      role,
      nodeChunk({ reasoning_content: 'x'.repeat(100) }),
      nodeChunk({ tool_calls: calls }),
      finish,
      done,
    ]
    const { last } = await streamed(writes(...blocks))
    expect(last.usage?.completion_tokens).toBe(Math.ceil(30 + 0.3 * JSON.stringify(calls).length))
  })
})
