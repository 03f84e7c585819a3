import { afterEach, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { EventStreamReader } from '../../support/clients/event-stream.ts'
import { nodeChunk, nodeUsage } from '../../support/nodes/scripted-node.ts'
import {
  askUsage,
  deltas,
  done,
  finish,
  leak,
  role,
  startStreamPool,
  text,
  usage,
  usual,
  writes,
} from '../../support/pools/stream-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const pool = await fixture(startStreamPool({ SVC_FINISH_HOLD_MS: '10000', SVC_RECEIPT_FLUSH_MS: '5' }))

afterEach(() => pool.node.answer(null))

describe('§6: the framing', () => {
  test('headers', async () => {
    const { response } = await pool.streamed(writes(...usual))
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
    const { text: whole, chunks, last } = await pool.streamed(writes(...usual))
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
      const { chunks } = await pool.streamed(
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
    const { content, done: ended, blocks } = await pool.streamed(writes(raw))
    expect([content, ended, blocks.length]).toEqual(['Hi', true, 4])
  })

  test('whatever the cuts between the node’s writes', async () => {
    const bytes = Buffer.from(lines.replace('"Hi"', '"H 漢🙂 i"'))
    const { content } = await pool.streamed(async (call) => {
      call.open()
      for (let at = 0; at < bytes.length; at += 7) await call.raw(bytes.subarray(at, at + 7))
      call.end()
    })
    expect(content).toBe('H 漢🙂 i')
  })

  test('gzip, although identity was asked for', async () => {
    const { content, done: ended } = await pool.streamed(async (call) => {
      call.open({ 'content-encoding': 'gzip' })
      await call.raw(gzipSync(lines))
      call.end()
    })
    expect([content, ended]).toEqual(['Hi', true])
  })

  test('a chunk of 4 MiB', async () => {
    const large = '漢"\\'.repeat(500_000)
    const { content } = await pool.streamed(writes(role, text('a'), text(large), text('b'), finish, usage, done))
    expect(content).toBe(`a${large}b`)
  })
})

describe('§6: chunk by chunk', () => {
  test('each one is with the client before the node sends the next', async () => {
    const arriving = pool.node.next()
    const asking = pool.ask()
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
    const { chunks, content } = await pool.streamed(writes(role, many, finish, usage, done))
    expect(content).toBe(Array.from({ length: 50 }, (_, i) => `${i} `).join(''))
    expect(chunks).toHaveLength(52)
  })

  test('include_usage: the finish chunk does not wait for the usage', async () => {
    const arriving = pool.node.next()
    const asking = pool.ask(askUsage)
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
    expect(deltas(await pool.streamed(writes(...given, done)))).toEqual(told.map(([delta, reason]) => [delta, reason]))
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
    const stream = await pool.streamed(writes(role, ...verbatim.map((delta) => nodeChunk(delta)), finish, usage, done))
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
    const { chunks } = await pool.streamed(
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
      const { chunks } = await pool.streamed(writes(role, nodeChunk({}, given), usage, done), options)
      expect(chunks[1]?.choices[0]?.finish_reason).toBe(told)
    }
  })

  test('a line that is no JSON is skipped', async () => {
    const broken = ['data: {"choices":[{\n\n', 'data: nonsense\n\n', 'data:\n\n', 'nonsense\n\n', 'data: 5\n\n']
    const { content, done: ended } = await pool.streamed(
      writes(role, text('a'), ...broken, text('b'), finish, usage, done),
    )
    expect([content, ended]).toEqual(['ab', true])
  })
})
