import { describe, expect, test } from 'bun:test'
import { answerEnd } from '../../../src/protocol/chat/answer-end.ts'
import { ChunkRewriter } from '../../../src/protocol/chat/chunk-rewriter.ts'
import { begun, events, identity, type Json, secret } from './chunk-oracle.ts'

describe('§6: kinds of lines', () => {
  test.each([
    ['no JSON', '{"choices":[{', 'malformed'],
    ['a number', '5', 'malformed'],
    ['a list', '[]', 'malformed'],
    ['null', 'null', 'malformed'],
    ['error object', '{"error":{"message":"x"}}', 'failed'],
    ['error text', '{"error":"x"}', 'failed'],
    ['object error', '{"object":"error","message":"x"}', 'failed'],
    ['error with choices', '{"error":{},"choices":[{"index":0,"delta":{"content":"a"}}]}', 'failed'],
    ['error null is none', '{"error":null,"choices":[{"index":0,"delta":{"content":"a"}}]}', 'chunk'],
    ['no choices', '{"id":"x"}', 'nothing'],
    ['empty choices', '{"choices":[]}', 'nothing'],
    ['choices of another type', '{"choices":["a",null,3]}', 'nothing'],
    ['without index and finish_reason', '{"choices":[{"delta":{"content":"a"}}]}', 'chunk'],
    ['an empty finish_reason is none', '{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}', 'chunk'],
    ['without delta', '{"choices":[{"index":0,"finish_reason":null}]}', 'chunk'],
  ] as const)('%s', (_name, line, kind) => {
    expect(begun().accept(line).kind).toBe(kind)
  })

  test('usage is read wherever it stands, details stay behind, nonsense is no usage', () => {
    const rewriter = begun()
    rewriter.accept('{"choices":[],"usage":{"prompt_tokens":"9","completion_tokens":2}}')
    rewriter.accept('{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":2}}')
    rewriter.accept('{"choices":[],"usage":{"prompt_tokens":1.5,"completion_tokens":2}}')
    rewriter.accept('{"choices":[],"usage":null}')
    expect(rewriter.usage).toBeNull()
    rewriter.accept(
      '{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":99,"queue":"secret"}}',
    )
    expect(rewriter.usage).toEqual({ prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 })
  })

  test('the first event carries the role, synthesised where the node omits it, and only once', () => {
    const rewriter = new ChunkRewriter(identity)
    const line = JSON.stringify({ choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }] })
    const texts = [line, line].map((each) => {
      const accepted = rewriter.accept(each)
      return accepted.kind === 'chunk' ? events(accepted.text) : []
    })
    const deltas = texts.map((list) => list.map((event) => (event.choices as Json[])[0]?.delta))
    expect(deltas).toEqual([[{ role: 'assistant', content: '' }, { content: 'a' }], [{ content: 'a' }]])
    const own = new ChunkRewriter(identity)
    const accepted = own.accept(
      '{"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}',
    )
    expect(accepted.kind === 'chunk' && events(accepted.text)).toHaveLength(1)
  })

  test('content counts as seen from the first text on, spliced or parsed', () => {
    const rewriter = new ChunkRewriter(identity)
    const line = (content: string) =>
      JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })
    // The fourth chunk is the first that teaches the shape of those behind it.
    for (let at = 0; at < 4; at++) rewriter.accept(line(''))
    expect(rewriter.contentSeen).toBe(false)
    rewriter.accept(line('x'))
    expect(rewriter.contentSeen).toBe(true)
  })
})

describe('§6: the end of a stream', () => {
  const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
  const finished = (finish: Json) => {
    const rewriter = begun()
    expect(rewriter.accept(JSON.stringify({ choices: [finish] })).kind).toBe('nothing')
    return rewriter
  }

  const metadata = {
    runtime_id: 'rt_1',
    runtime_kind: 'vllm',
    latency_ms: 412,
    ttft_ms: 80,
    receipt_hash: `0x${'0'.repeat(64)}`,
    request_id: 'req_1',
    usage_estimated: true,
  }
  const end = answerEnd(usage, metadata)

  test('one chunk: the held finish chunk with usage and metadata, delta as the node had it, then [DONE]', () => {
    const rewriter = finished({ index: 0, delta: { content: 'end' }, finish_reason: 'length', stop_reason: secret })
    const text = rewriter.terminal(end, false)
    const [chunk, done, rest] = text.split('\n\n')
    expect(JSON.parse((chunk ?? '').slice(6))).toEqual({
      ...identity,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta: { content: 'end' }, finish_reason: 'length' }],
      usage,
      svc: metadata,
    })
    expect([done, rest]).toEqual(['data: [DONE]', ''])
  })

  test('separate: the finish chunk as it is, then one without choices', () => {
    const rewriter = finished({ index: 0, delta: {}, finish_reason: 'stop' })
    expect(events(rewriter.finishChunk())).toEqual([
      { ...identity, object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    ])
    const text = rewriter.terminal(end, true)
    expect(text).toEndWith('\n\ndata: [DONE]\n\n')
    expect(JSON.parse(text.slice(6, text.indexOf('\n\n')))).toEqual({
      ...identity,
      object: 'chat.completion.chunk',
      choices: [],
      usage,
      svc: metadata,
    })
  })

  test.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'tool_calls'],
    ['content_filter', 'content_filter'],
    ['eos_token', 'stop'],
    ['abort', 'stop'],
    ['function_call', 'stop'],
    ['error', 'stop'],
  ])('finish_reason %s becomes %s', (given, told) => {
    const rewriter = finished({ index: 0, delta: {}, finish_reason: given })
    expect(events(rewriter.finishChunk())).toMatchObject([{ choices: [{ finish_reason: told }] }])
  })

  test('a second finish chunk does not take the text of the first away', () => {
    const rewriter = finished({ index: 0, delta: { content: 'last words' }, finish_reason: 'stop' })
    for (const delta of [{}, { content: '' }, { role: 'assistant', content: null }]) {
      rewriter.accept(JSON.stringify({ choices: [{ index: 0, delta, finish_reason: 'stop' }], usage }))
    }
    expect(rewriter.terminal(end, false)).toContain('last words')
    expect(rewriter.usage).toEqual(usage)
  })

  test('a running count does not end the wait for the usage', () => {
    const rewriter = begun()
    const running = { prompt_tokens: 9, completion_tokens: 0 }
    const choices = [{ index: 0, delta: { content: 'a' }, finish_reason: null }]
    rewriter.accept(JSON.stringify({ choices, usage: running }))
    rewriter.accept(JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
    expect(rewriter.usageFinal).toBe(false)
    rewriter.accept(JSON.stringify({ choices: [], usage: { ...running, completion_tokens: 1 } }))
    expect([rewriter.usageFinal, rewriter.usage?.completion_tokens]).toEqual([true, 1])
  })

  test('a failure inside the stream names no node and ends without [DONE]', () => {
    const text = begun().failure({ message: 'The node stopped responding.', code: 'node_lost' })
    expect(events(text)).toEqual([
      {
        ...identity,
        object: 'chat.completion.chunk',
        choices: [{ index: 0, delta: {}, finish_reason: 'error' }],
        usage: false,
        error: { message: 'The node stopped responding.', code: 'node_lost' },
      },
    ])
  })
})
