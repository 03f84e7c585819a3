import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { answerEnd } from '../../../src/protocol/chat/answer-end.ts'
import type { AnswerMetadata } from '../../../src/protocol/chat/chunk-reader.ts'
import { completionText, publicCompletion } from '../../../src/protocol/chat/completion.ts'
import { textWeight } from '../../../src/protocol/chat/token-estimate.ts'

const message = { role: 'assistant', content: 'Hi' }
const body = (choice: object, more: object = {}) => JSON.stringify({ choices: [choice], ...more })
const choicesOf = (text: string) => publicCompletion(text)?.choices

describe('§5: a node’s whole answer by allow-list', () => {
  test('keys of the body and of a choice that are not on the list stay behind', () => {
    const text = body(
      { index: 0, message, finish_reason: 'stop', logprobs: null, stop_reason: '/srv/x', token_ids: [1] },
      { id: 'x', model: '/srv/x.gguf', system_fingerprint: 'b1', timings: {}, service_tier: 'x', usage: null },
    )
    // As JSON: what a server says of its stop has no name there.
    const written = JSON.parse(JSON.stringify(choicesOf(text))) as unknown
    expect(written).toEqual([{ index: 0, message, finish_reason: 'stop' }])
    expect(Object.keys(publicCompletion(text) ?? {}).sort()).toEqual([
      'cachedTokens',
      'choices',
      'outputWeight',
      'svc',
      'timings',
      'usage',
    ])
  })

  test('the message goes through verbatim, whatever fields it has', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (any) => {
        const given = JSON.parse(JSON.stringify({ ...any, content: null, tool_calls: [{ id: 'c' }] })) as Record<
          string,
          unknown
        >
        expect(choicesOf(body({ index: 0, message: given, finish_reason: 'tool_calls' }))).toEqual([
          { index: 0, message: given, finish_reason: 'tool_calls' },
        ])
      }),
    )
  })

  test('logprobs stay, as an object only', () => {
    const logprobs = { content: [{ token: 'Hi', logprob: -0.1 }] }
    expect(choicesOf(body({ message, logprobs }))).toEqual([{ index: 0, message, finish_reason: 'stop', logprobs }])
    expect(choicesOf(body({ message, logprobs: 'secret' }))).toEqual([{ index: 0, message, finish_reason: 'stop' }])
  })

  test.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'tool_calls'],
    ['content_filter', 'content_filter'],
    ['eos', 'stop'],
    ['error', 'stop'],
    [null, 'stop'],
    [undefined, 'stop'],
    [7, 'stop'],
  ])('finish_reason %p becomes %s', (given, told) => {
    expect(choicesOf(body({ index: 0, message, finish_reason: given }))).toEqual([
      { index: 0, message, finish_reason: told },
    ])
  })

  test.each([
    ['no JSON', '<html>'],
    ['empty', ''],
    ['a list', '[]'],
    ['null', 'null'],
    ['an error body under 200', '{"error":{"message":"x"}}'],
    ['object error', '{"object":"error","message":"x"}'],
    ['an error beside choices', body({ message }, { error: { message: 'x' } })],
    ['no choices', '{}'],
    ['empty choices', '{"choices":[]}'],
    ['choices of another type', '{"choices":{}}'],
    ['a choice without a message', body({ index: 0, text: 'x' })],
    ['a message of another type', body({ message: 'x' })],
  ])('no completion: %s', (_name, text) => {
    expect(publicCompletion(text)).toBeNull()
  })

  test('error: null is no error', () => {
    expect(choicesOf(body({ index: 0, message }, { error: null }))).toHaveLength(1)
  })
})

describe('§5: usage', () => {
  test.each([
    ['whole', { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }, 11],
    ['the total is ours', { prompt_tokens: 9, completion_tokens: 2, total_tokens: 99 }, 11],
    ['without a total', { prompt_tokens: 9, completion_tokens: 2 }, 11],
    ['none', undefined, null],
    ['half', { prompt_tokens: 9 }, null],
    ['negative', { prompt_tokens: 9, completion_tokens: -2 }, null],
    ['text', { prompt_tokens: '9', completion_tokens: 2 }, null],
    ['absurd', { prompt_tokens: 9, completion_tokens: 1e300 }, null],
  ] as const)('%s', (_name, usage, total) => {
    expect(publicCompletion(body({ message }, { usage }))?.usage?.total_tokens ?? null).toBe(total)
  })

  test('what the answer weighs: text, reasoning and the texts of tool calls, never the role', () => {
    const calls = [{ id: 'c', function: { name: 'f', arguments: '{}' } }]
    const answer = {
      role: 'assistant',
      content: '漢字',
      reasoning_content: 'because',
      tool_calls: calls,
      refusal: null,
    }
    const weight = publicCompletion(body({ message: answer }))?.outputWeight()
    expect(weight).toBeCloseTo(textWeight('漢字') + textWeight('because') + textWeight('cf{}'), 9)
  })
})

test('§6: a whole answer ends in the bytes in which a stream of it would', () => {
  const count = fc.nat({ max: 1_000_000 })
  const some = fc.string({ unit: 'binary' })
  const usages = fc.record(
    {
      prompt_tokens: count,
      completion_tokens: count,
      total_tokens: count,
      cached_tokens: count,
      reasoning_tokens: count,
    },
    { requiredKeys: ['prompt_tokens', 'completion_tokens', 'total_tokens'] },
  )
  const id = fc.constantFrom('req_0', 'req_1')
  const metadatas = fc.record(
    {
      // The order of the members is not that of the answer.
      external: fc.boolean(),
      usage_estimated: fc.boolean(),
      receipt_hashes: fc.array(id),
      receipt_salt: id,
      upstream_model: some,
      receipt_hash: id,
      request_id: id,
      ttft_ms: count,
      latency_ms: count,
      runtime_kind: some,
      runtime_id: some,
    },
    { requiredKeys: ['runtime_id', 'runtime_kind', 'latency_ms', 'ttft_ms', 'request_id'] },
  )
  fc.assert(
    fc.property(usages, metadatas, some, (usage, metadata, model) => {
      const identity = { id: 'chatcmpl-1', created: 1, model }
      const choices = [{ index: 0, message: { role: 'assistant', content: model }, finish_reason: 'stop' }]
      const whole = completionText(identity, choices, usage, metadata as AnswerMetadata)
      expect(whole).toEndWith(`,"choices":${JSON.stringify(choices)}${answerEnd(usage, metadata as AnswerMetadata)}}`)
      expect(whole).toStartWith(
        `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":${JSON.stringify(model)},`,
      )
    }),
  )
})
