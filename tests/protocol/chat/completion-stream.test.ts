import { describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import { answerEvents, type BufferedAnswer, sliceUnitsMax } from '../../../src/protocol/chat/completion-stream.ts'
import { ChatChunk } from '../../../src/protocol/wire/inference/chat.ts'

const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
const metadata = {
  runtime_id: 'rt_1',
  runtime_kind: 'openai',
  latency_ms: 1,
  ttft_ms: 1,
  receipt_hash: `0x${'0'.repeat(64)}`,
  request_id: 'req_1',
}
const identity = { id: 'chatcmpl-1', created: 1_795_190_400, model: 'm' }

interface Chunk {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly choices: readonly {
    readonly delta: Record<string, unknown>
    readonly finish_reason: string | null
    readonly logprobs?: unknown
  }[]
  readonly usage?: unknown
  readonly svc?: unknown
}

/** The chunks, each as its schema has it, before `[DONE]`. */
function chunksOf(message: object, more: Partial<BufferedAnswer> = {}): readonly Chunk[] {
  const answer = {
    identity,
    message: { ...message },
    finishReason: 'stop',
    usage,
    metadata,
    separateUsage: false,
    ...more,
  }
  const blocks = [...answerEvents(answer)].join('').split('\n\n')
  expect(blocks.slice(-2)).toEqual(['data: [DONE]', ''])
  const chunks = blocks.slice(0, -2).map((block) => JSON.parse(block.slice('data: '.length)) as Chunk)
  for (const chunk of chunks) expect([...Value.Errors(ChatChunk, chunk)]).toEqual([])
  for (const { id, created, model } of chunks) expect({ id, created, model }).toEqual(identity)
  return chunks
}
const joined = (chunks: readonly Chunk[], key: string) =>
  chunks.map(({ choices }) => choices[0]?.delta[key] ?? '').join('')

describe('§6, mixture stream', () => {
  test('role, text, one terminal chunk with usage and metadata', () => {
    const chunks = chunksOf({ role: 'assistant', content: 'hello' })
    const choice = (delta: object, reason: string | null = null) => [{ index: 0, delta, finish_reason: reason }]
    expect(chunks.map(({ choices, usage: sum, svc }) => ({ choices, sum, svc }))).toEqual([
      { choices: choice({ role: 'assistant', content: '' }), sum: undefined, svc: undefined },
      { choices: choice({ content: 'hello' }), sum: undefined, svc: undefined },
      { choices: choice({}, 'stop'), sum: usage, svc: metadata },
    ] as never)
  })

  test('include_usage: the finish chunk, then one without choices', () => {
    const [finish, last] = chunksOf({ content: 'x' }, { separateUsage: true, finishReason: 'length' }).slice(-2)
    expect([finish?.choices[0]?.finish_reason, finish?.usage, finish?.svc]).toEqual(['length', undefined, undefined])
    expect([last?.choices, last?.usage, last?.svc]).toEqual([[], usage, metadata])
  })

  test('slices of at most 2,048, together the text, no character cut in two', () => {
    expect(sliceUnitsMax).toBe(2_048)
    const texts = fc.array(fc.string({ unit: 'binary', maxLength: 40 }), { maxLength: 20 })
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 60 }), (pieces, times) => {
        const content = pieces.join('').repeat(times)
        const chunks = chunksOf({ role: 'assistant', content })
        const slices = chunks.slice(1, -1).map(({ choices }) => String(choices[0]?.delta.content))
        expect(slices.join('')).toBe(content)
        for (const slice of slices) {
          expect(slice.length).toBeLessThanOrEqual(sliceUnitsMax)
          expect(slice.length).toBeGreaterThan(0)
          expect(slice.isWellFormed()).toBe(true)
        }
      }),
      { numRuns: 50 },
    )
  })

  test('reasoning before content, in slices too; what else the message has goes through', () => {
    const reasoning = 'r'.repeat(5_000)
    const annotations = [{ type: 'url' }]
    const chunks = chunksOf({
      role: 'assistant',
      content: 'c',
      reasoning_content: reasoning,
      annotations,
      refusal: null,
    })
    expect(joined(chunks, 'reasoning_content')).toBe(reasoning)
    const order = chunks.map(({ choices }) => Object.keys(choices[0]?.delta ?? {}).join())
    expect(order).toEqual([
      'role,content',
      'reasoning_content',
      'reasoning_content',
      'reasoning_content',
      'content',
      'annotations',
      '',
    ])
  })

  test('tool calls are numbered, as a stream has them, and else verbatim; logprobs stay with the end', () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a": 1}' } }
    const logprobs = { content: [] }
    const chunks = chunksOf({ content: null, tool_calls: [call, call] }, { finishReason: 'tool_calls', logprobs })
    expect(chunks[1]?.choices[0]?.delta).toEqual({
      tool_calls: [
        { index: 0, ...call },
        { index: 1, ...call },
      ],
    })
    expect(chunks.at(-1)?.choices[0]).toMatchObject({ finish_reason: 'tool_calls', logprobs })
  })
})
