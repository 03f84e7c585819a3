import { expect, test } from 'bun:test'
import type { FakeNode, FakeNodeOptions } from '../../src/fake-node/fake-node.ts'
import type { Fault } from '../../src/fake-node/faults.ts'
import { nodeAt, withFakeNodes } from '../support/nodes/fake-nodes.ts'
import { stopwatch } from '../support/run/stopwatch.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const messages = [{ role: 'user', content: 'hello there' }]

function chat(node: FakeNode, extra: object = {}, signal?: AbortSignal): Promise<Response> {
  const body = JSON.stringify({ model: 'fake-model', messages, ...extra })
  const headers = { 'content-type': 'application/json', 'accept-encoding': 'identity' }
  return fetch(`${node.url}/v1/chat/completions`, { method: 'POST', body, headers, ...(signal ? { signal } : {}) })
}

async function one<T>(options: FakeNodeOptions, body: (node: FakeNode) => Promise<T>): Promise<T> {
  return withFakeNodes(1, options, (nodes) => body(nodeAt(nodes, 0)))
}

async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'no failure'
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error)
  }
}

function chunksOf(text: string): readonly Record<string, unknown>[] {
  const lines = text.split('\n').filter((line) => line.startsWith('data: {'))
  return lines.map((line) => JSON.parse(line.slice(6)))
}

const stream = { stream: true, stream_options: { include_usage: true } }

test('a stream has a role chunk, its text, a finish chunk, usage and [DONE]', () =>
  one({ answer: { chunks: 3 } }, async (node) => {
    const text = await (await chat(node, stream)).text()
    const chunks = chunksOf(text)
    expect(chunks.map((chunk) => chunk.choices)).toMatchObject([
      [{ delta: { role: 'assistant' } }],
      [{ delta: { content: 'a-0 ' } }],
      [{ delta: { content: 'a-1 ' } }],
      [{ delta: { content: 'a-2 ' } }],
      [{ delta: {}, finish_reason: 'stop' }],
      [],
    ])
    expect(chunks.at(-1)?.usage).toEqual({ prompt_tokens: 6, completion_tokens: 3, total_tokens: 9 })
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(node.requests).toMatchObject([{ outcome: 'finished', chunksSent: 3, body: { stream: true } }])
  }))

test('one body has the same text, the usage, and tool calls where tools are offered', () =>
  one({ answer: { chunks: 2, reasoning: 'hm' } }, async (node) => {
    const body = await (await chat(node)).json()
    expect(body).toMatchObject({
      choices: [
        { message: { role: 'assistant', content: 'a-0 a-1 ', reasoning_content: 'hm' }, finish_reason: 'stop' },
      ],
      usage: { completion_tokens: 2 },
    })
    const called = await (await chat(node, { tools: [{ type: 'function', function: { name: 'look' } }] })).json()
    expect(called.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ function: { name: 'look', arguments: '{"fake": true}' } }] },
    })
  }))

test('a client that leaves is seen at once, before the headers and in the middle of a stream', () =>
  one({ faults: [{ kind: 'hang', times: 1 }], answer: { chunks: 1_000, intervalMs: 5 } }, async (node) => {
    const held = new AbortController()
    const arrived = node.nextRequest()
    const first = failure(chat(node, {}, held.signal))
    await arrived
    const gone = node.nextAbort()
    held.abort()
    const aborted = await gone
    expect(aborted).toMatchObject({ outcome: 'aborted', headersSent: false })
    await first

    const streaming = new AbortController()
    const response = await chat(node, stream, streaming.signal)
    await response.body?.getReader().read()
    const cut = node.nextAbort()
    streaming.abort()
    expect(await cut).toMatchObject({ outcome: 'aborted', headersSent: true })
    expect(node.stats()).toMatchObject({ openRequests: 0, abortedRequests: 2, abortedStreams: 1 })
  }))

test('refuse closes the port and resets what is open; clearing opens the same port again', () =>
  one({ answer: { chunks: 1_000, intervalMs: 5 } }, async (node) => {
    const response = await chat(node, stream)
    const rest = failure(response.text())
    node.setFaults({ kind: 'refuse' })
    expect(await rest).toBe('ECONNRESET')
    expect(await failure(chat(node))).toBe('ECONNREFUSED')
    expect(node.requests[0]?.outcome).toBe('cut')
    node.clearFaults()
    expect((await fetch(`${node.url}/health`)).status).toBe(200)
  }))

const seen: readonly [Fault, (node: FakeNode) => Promise<unknown>, unknown][] = [
  [{ kind: 'status500' }, async (node) => (await chat(node)).status, 500],
  [{ kind: 'status400' }, async (node) => (await chat(node)).status, 400],
  [{ kind: 'status429', retryAfterS: 7 }, async (node) => (await chat(node)).headers.get('retry-after'), '7'],
  [{ kind: 'failAfter', ms: 20 }, async (node) => (await chat(node, stream)).status, 500],
  [{ kind: 'failAfter', ms: 20, as: 'reset' }, async (node) => failure(chat(node, stream)), 'ECONNRESET'],
  [
    { kind: 'failAfter', ms: 20, as: 'errorEvent' },
    async (node) => chunksOf(await (await chat(node, stream)).text())[0]?.error !== undefined,
    true,
  ],
  [{ kind: 'dropMidStream', afterChunks: 2 }, async (node) => failure((await chat(node, stream)).text()), 'ECONNRESET'],
  [{ kind: 'dropMidStream', how: 'fin' }, async (node) => failure((await chat(node, stream)).text()), 'ECONNRESET'],
  [{ kind: 'dropMidStream' }, async (node) => failure(chat(node).then((response) => response.text())), 'ECONNRESET'],
  [
    { kind: 'endWithoutFinish', afterChunks: 2 },
    async (node) => {
      const text = await (await chat(node, stream)).text()
      return [chunksOf(text).length, text.includes('[DONE]'), text.includes('"stop"')]
    },
    [3, false, false],
  ],
  [
    { kind: 'malformedLine' },
    async (node) =>
      (await (await chat(node, stream)).text()).includes('data: {"id":"chatcmpl-fake","choices":[{"delta":\n'),
    true,
  ],
  [
    { kind: 'malformedLine' },
    async (node) => failure((await chat(node)).json()),
    "SyntaxError: JSON Parse error: Expected '}'",
  ],
  [
    { kind: 'errorEvent', shape: 'line' },
    async (node) => (await (await chat(node, stream)).text()).includes('\nerror: {"error":{'),
    true,
  ],
  [
    { kind: 'errorEvent', shape: 'object' },
    async (node) => chunksOf(await (await chat(node, stream)).text()).at(-1)?.object,
    'error',
  ],
  [
    { kind: 'jsonErrorBody' },
    async (node) => {
      const response = await chat(node, stream)
      return [response.status, response.headers.get('content-type'), 'error' in (await response.json())]
    },
    [200, 'application/json', true],
  ],
  [{ kind: 'noUsage' }, async (node) => (await (await chat(node, stream)).text()).includes('"usage"'), false],
  [{ kind: 'noUsage' }, async (node) => 'usage' in (await (await chat(node)).json()), false],
  [{ kind: 'usageTwice' }, async (node) => (await (await chat(node, stream)).text()).split('"usage"').length - 1, 2],
  [{ kind: 'gzip' }, async (node) => (await chat(node, stream)).headers.get('content-encoding'), 'gzip'],
  [
    { kind: 'hugeChunk', bytes: 3_000_000 },
    async (node) => Math.floor((await (await chat(node, stream)).text()).length / 1_000_000),
    3,
  ],
]

test.each(seen)('fault %j', (fault, act, expected) =>
  one({ faults: [fault] }, async (node) => {
    expect(await act(node)).toEqual(expected)
  }),
)

test('slow faults keep their order: headers, then the first chunk, then late usage', () =>
  one({}, async (node) => {
    const timed = async (fault: Fault) => {
      node.setFaults(fault)
      const sinceMs = stopwatch()
      const response = await chat(node, stream)
      const headersMs = sinceMs()
      const reader = response.body?.getReader()
      await reader?.read()
      const firstMs = sinceMs()
      while (!(await reader?.read())?.done);
      return { headersMs, firstMs, endMs: sinceMs() }
    }
    const ms = 400
    const least = ms - 10
    expect((await timed({ kind: 'slowHeaders', ms })).headersMs).toBeGreaterThan(least)
    const slowToken = await timed({ kind: 'slowFirstToken', ms })
    expect(slowToken.firstMs).toBeGreaterThan(least)
    // What is slow comes after what is not: part of the time passes in between.
    expect(slowToken.firstMs - slowToken.headersMs).toBeGreaterThan(0)
    const late = await timed({ kind: 'usageLate', ms })
    expect(late.endMs).toBeGreaterThan(least)
    expect(late.endMs - late.firstMs).toBeGreaterThan(0)
  }))

test('times and match limit a fault; scope keeps probes well', () =>
  one(
    { models: ['fake-model', 'other'], faults: [{ kind: 'status500', times: 2, match: 'fake-model' }] },
    async (node) => {
      const statuses: number[] = []
      for (const model of ['other', 'fake-model', 'fake-model', 'fake-model'])
        statuses.push((await chat(node, { model })).status)
      expect(statuses).toEqual([200, 500, 500, 200])
      expect(node.faults).toEqual([])
      node.setFaults({ kind: 'unhealthyOnly' })
      expect([(await fetch(`${node.url}/v1/models`)).status, (await chat(node)).status]).toEqual([503, 200])
      node.setFaults({ kind: 'hang' })
      expect((await fetch(`${node.url}/v1/models`)).status).toBe(200)
    },
  ))

test('faults, answers and counts over HTTP; a refused port opens again by itself', () =>
  one({}, async (node) => {
    const control = (path: string, method: string, body?: unknown) =>
      fetch(`${node.url}${path}`, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    expect((await control('/faults', 'POST', { kind: 'no such fault' })).status).toBe(400)
    expect((await control('/faults', 'POST', [{ kind: 'status500' }, { kind: 'gzip' }])).status).toBe(200)
    expect((await chat(node)).status).toBe(500)
    expect(await (await control('/faults', 'GET')).json()).toEqual({
      faults: [{ kind: 'status500' }, { kind: 'gzip' }],
    })
    await control('/faults', 'DELETE')
    await control('/answer', 'POST', { chunks: 1, text: 'set over http' })
    expect((await (await chat(node)).json()).choices[0].message.content).toBe('set over http')
    expect(await (await control('/stats', 'GET')).json()).toMatchObject({
      requests: 2,
      openRequests: 0,
      finishedRequests: 2,
    })
    expect((await control('/faults', 'POST', { kind: 'refuse', ms: 150 })).status).toBe(200)
    expect(await failure(fetch(`${node.url}/health`))).toBe('ECONNREFUSED')
    await waitUntil('the port to open', async () => (await failure(fetch(`${node.url}/health`))) === 'no failure')
    expect((await fetch(`${node.url}/health`)).status).toBe(200)
  }))

test('a reader that does not read holds the node', () =>
  one(
    { answer: { chunks: 400, text: 'x'.repeat(1_000_000) }, faults: [{ kind: 'hugeChunk', bytes: 60_000_000 }] },
    async (node) => {
      const socket = await Bun.connect({
        hostname: node.hostname,
        port: node.port,
        socket: {
          open(opened) {
            opened.pause()
            const body = JSON.stringify({ model: 'fake-model', messages, stream: true })
            opened.write(
              `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
            )
          },
          data() {},
        },
      })
      const held = await node.nextRequest()
      await waitUntil('the node to write', () => node.stats().openStreams === 1)
      // Another one, who reads, has all of its answer meanwhile.
      expect(held.outcome).toBe('open')
      node.setAnswer({ chunks: 3, text: null })
      await (await chat(node, stream)).text()
      expect(node.stats()).toMatchObject({ openStreams: 1, finishedRequests: 1 })
      const gone = node.nextAbort()
      socket.terminate()
      expect((await gone).chunksSent).toBeLessThan(5)
    },
  ))

test('a warm conversation starts sooner than a cold one, and a full cache forgets the oldest', () =>
  one({ kv: { msPerPromptToken: 1, cachedMsPerToken: 0, capacityPrompts: 1 } }, async (node) => {
    const turn = [{ role: 'user', content: 'one two three four five six' }]
    await (await chat(node, { messages: turn })).text()
    await (await chat(node, { messages: [...turn, { role: 'assistant', content: 'seven' }] })).text()
    expect(node.stats()).toMatchObject({ promptTokens: 10 + 10 + 5, cachedTokens: 10 })
    await (await chat(node, { messages: [{ role: 'user', content: 'something else' }] })).text()
    await (await chat(node, { messages: turn })).text()
    expect(node.stats().cachedTokens).toBe(10)
  }))
