import { describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { Value } from '@sinclair/typebox/value'
import { ChatChunk } from '../../../src/protocol/wire/inference/chat.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import {
  answerOf,
  expert,
  type MixtureBody,
  type MixturePool,
  messages,
  shareMixturePool,
  synthesize,
  traceEntry,
  unused,
  usageSum,
  vote,
} from '../../support/pools/mixture-pool.ts'

let pool: MixturePool
// A single model would have its status told at once: a mixture never before it has settled.
shareMixturePool(
  (started) => {
    pool = started
  },
  { SVC_HEADER_COMMIT_MS: '0', SVC_KEEP_ALIVE_MS: '5000' },
)

const [a, b] = [expert('a'), expert('b')]

async function streamed(mixture: MixtureBody, body: object = {}) {
  const response = await pool.mix(mixture, { body: { stream: true, ...body } })
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  const stream = await readStream(response)
  expect(stream.chunks.flatMap((chunk) => [...Value.Errors(ChatChunk, chunk)])).toEqual([])
  return { response, ...stream }
}

describe('rule 5, §6: the stream of a mixture', () => {
  test('literally: role, content, one terminal chunk with usage and svc, [DONE]', async () => {
    const { response, blocks, last, done } = await streamed(synthesize(a, b))
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(response.headers.get('cache-control')).toBe('no-cache, no-transform')
    expect(response.headers.get('x-accel-buffering')).toBe('no')
    const { id, created, svc } = last
    const head = `{"id":"${id}","object":"chat.completion.chunk","created":${created},"model":"agg",`
    const choice = (delta: object, finish: string | null) =>
      `"choices":[{"index":0,"delta":${JSON.stringify(delta)},"finish_reason":${JSON.stringify(finish)}}]`
    const usage = JSON.stringify(usageSum('a', 'b', 'agg'))
    expect(blocks).toEqual([
      `data: ${head}${choice({ role: 'assistant', content: '' }, null)}}`,
      `data: ${head}${choice({ content: answerOf('agg') }, null)}}`,
      `data: ${head}${choice({}, 'stop')},"usage":${usage},"svc":${JSON.stringify(svc)}}`,
      'data: [DONE]',
    ])
    expect(done).toBe(true)
    expect(id).toMatch(/^chatcmpl-[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(svc).toEqual({
      runtime_id: expect.stringMatching(/^rt_/),
      runtime_kind: 'openai',
      latency_ms: expect.any(Number),
      ttft_ms: expect.any(Number),
      receipt_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      request_id: response.headers.get('x-request-id') ?? '',
      mixture: {
        strategy: 'synthesize',
        degraded: false,
        experts: [traceEntry(pool, 'a'), traceEntry(pool, 'b'), traceEntry(pool, 'agg')],
      },
    })
  })

  test('include_usage: the finish chunk as it is, then a chunk without choices', async () => {
    const { chunks } = await streamed(vote(a, b), { stream_options: { include_usage: true } })
    expect(chunks.slice(-2).map(({ choices }) => choices)).toEqual([
      [{ index: 0, delta: {}, finish_reason: 'stop' }],
      [],
    ])
    const [finish, last] = chunks.slice(-2)
    expect([finish?.usage, finish?.svc]).toEqual([undefined, undefined])
    expect(last?.usage).toEqual(usageSum('a', 'b'))
    expect(last?.svc?.mixture).toMatchObject({ strategy: 'vote', degraded: false })
  })

  test('the same id, created and model on all', async () => {
    const { chunks } = await streamed(vote(a, b))
    expect(new Set(chunks.map(({ id, created, model, object }) => `${id} ${created} ${model} ${object}`)).size).toBe(1)
    expect(chunks[0]?.model).toBe('council')
  })

  test.each([
    ['exactly one slice', 'x'.repeat(2_048)],
    ['one more character', 'x'.repeat(2_049)],
    ['several', 'lorem ipsum '.repeat(1_000)],
    ['a pair of code units on the border', `${'x'.repeat(2_047)}🙂${'y'.repeat(2_047)}🙂`],
    ['pairs only', '🙂'.repeat(3_000)],
    ['of another script', '漢'.repeat(5_000)],
  ])('content in slices of at most 2,048 characters: %s', async (_what, text) => {
    pool.nodes.a.setAnswer({ text })
    const { chunks, content } = await streamed(vote(a))
    expect(content).toBe(text)
    const slices = chunks.map(({ choices }) => String(choices[0]?.delta.content ?? ''))
    expect(Math.max(...slices.map((slice) => slice.length))).toBeLessThanOrEqual(2_048)
    for (const slice of slices) expect(slice.isWellFormed()).toBe(true)
    expect(slices.filter((slice) => slice !== '').length).toBeLessThanOrEqual(Math.ceil(text.length / 2_047) + 1)
  })

  test('degraded says so on the terminal chunk', async () => {
    pool.nodes.b.setFaults({ kind: 'status500' })
    const { last, content } = await streamed(vote(a, b))
    expect(content).toBe(answerOf('a'))
    expect(last.svc?.mixture).toEqual({
      strategy: 'vote',
      degraded: true,
      experts: [traceEntry(pool, 'a'), traceEntry(pool, 'b', { status: 'upstream_error', ...unused })],
    })
  })

  test('finish_reason is that of the winner', async () => {
    pool.nodes.a.setAnswer({ finishReason: 'length' })
    expect((await streamed(vote(a))).last.choices[0]?.finish_reason).toBe('length')
  })

  test('calls of tools: with their index, as a stream has them', async () => {
    const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }]
    const { chunks, last } = await streamed(vote(a, b), { tools })
    const calls = chunks.flatMap(({ choices }) => (choices[0]?.delta.tool_calls ?? []) as readonly object[])
    expect(calls).toMatchObject([
      { index: 0, type: 'function', function: { name: 'look', arguments: '{"fake": true}' } },
    ])
    expect(last.choices[0]?.finish_reason).toBe('tool_calls')
  })

  test('no expert’s text but the winner’s', async () => {
    const { text } = await streamed(synthesize(a, b))
    for (const name of ['a', 'b'] as const) expect(text).not.toContain(answerOf(name))
  })
})

describe('§6: nothing on the wire before it has settled', () => {
  /** A client that sees every byte. */
  function rawClient(mixture: MixtureBody) {
    const { hostname, port } = new URL(pool.gateway.url)
    const body = JSON.stringify({ model: 'council', messages, stream: true, svc: { mixture } })
    const socket = connect(Number(port), hostname)
    let text = ''
    const ended = new Promise<void>((resolve) => socket.on('close', () => resolve()))
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
    })
    const lines = [
      'POST /v1/api/chat/completions HTTP/1.1',
      `host: ${hostname}:${port}`,
      `authorization: Bearer ${pool.customer.key}`,
      'content-type: application/json',
      'connection: close',
      `content-length: ${Buffer.byteLength(body)}`,
    ]
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
    return { text: () => text, ended }
  }

  test('no byte until the last sub-call has ended, then all', async () => {
    pool.nodes.b.setAnswer({ firstTokenMs: 200 })
    pool.nodes.agg.setAnswer({ firstTokenMs: 200 })
    const client = rawClient(synthesize(a, b))
    await pool.nodes.b.nextEnd()
    expect(client.text()).toBe('')
    await pool.nodes.agg.nextEnd()
    expect(client.text()).toBe('')
    await client.ended
    expect(client.text()).toStartWith('HTTP/1.1 200 ')
    expect(client.text()).toContain('data: [DONE]')
  })

  test('a quorum that is missed late is still a 503', async () => {
    pool.nodes.a.setFaults({ kind: 'failAfter', ms: 200 })
    const client = rawClient(vote(a))
    await pool.nodes.a.nextEnd()
    expect(client.text()).toBe('')
    await client.ended
    expect(client.text()).toStartWith('HTTP/1.1 503 ')
    expect(client.text().toLowerCase()).toContain('x-should-retry: false')
    expect(client.text()).not.toContain('data:')
  })
})
