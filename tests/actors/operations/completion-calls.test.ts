import { expect, test } from 'bun:test'
import { completionCalls, estimateCalls } from '../../../src/actors/operations/completion-calls.ts'
import type { CallPlan } from '../../../src/actors/operations/operation.ts'
import type { CompletionRequest } from '../../../src/protocol/wire/inference/completions.ts'

const planOf = (text: string): CallPlan => {
  const plan = completionCalls(text, JSON.parse(text) as CompletionRequest)
  if (plan === null) throw new Error('one call')
  return plan
}
const textsOf = (text: string) => {
  const plan = planOf(text)
  return Array.from({ length: plan.count }, (_, at) => plan.textOf(at))
}

test('§35: what the gateway does not know goes with each call, digit by digit', () => {
  expect(textsOf('{"model":"m", "big":12345678901234567890, "prompt":["a",\n"b"], "x":{"n":2}}')).toEqual([
    '{"prompt":"a","model":"m", "big":12345678901234567890,"x":{"n":2}}',
    '{"prompt":"b","model":"m", "big":12345678901234567890,"x":{"n":2}}',
  ])
})

test('§28: one of a list, or of nothing else, is one call', () => {
  for (const text of ['{"model":"m","prompt":["a"]}', '{"model":"m","prompt":[[1,2]],"n":1,"best_of":null}']) {
    expect(completionCalls(text, JSON.parse(text) as CompletionRequest)).toBeNull()
  }
})

test('a key that is written with an escape: the calls are written anew', () => {
  expect(textsOf('{"model":"m","\\u0070rompt":"a","n":2,"big":1}')).toEqual(
    Array.from({ length: 2 }, () => '{"model":"m","prompt":"a","big":1}'),
  )
})

test.each([
  ['goes up with each answer to a prompt', '7', ['7', '8', '7', '8']],
  ['begins at 0 like any other', '0', ['0', '1', '0', '1']],
  ['below 0 is a node’s own sign for any', '-1', ['-1', '-1', '-1', '-1']],
  [
    'beyond what a number holds stays as it is',
    '9007199254740991',
    Array.from({ length: 4 }, () => '9007199254740991'),
  ],
])('§28: a seed %s', (_, seed, seeds) => {
  const texts = textsOf(`{"model":"m","prompt":["a","b"],"n":2,"seed":${seed}}`)
  expect(texts.map((text) => /"seed":(-?\d+)/.exec(text)?.[1])).toEqual(seeds)
})

test('§28: the options of a stream stay, but the usage comes once', () => {
  const [text] = textsOf('{"model":"m","prompt":["a","b"],"stream_options":{"include_usage":true,"x":1}}')
  expect(JSON.parse(text ?? '')).toMatchObject({ stream_options: { include_usage: false, x: 1 } })
})

test('§28: the estimate is of all calls, and of the context the longest prompt alone', () => {
  const one = estimateCalls({ model: 'm', prompt: 'a long prompt of some words', suffix: 'end' })
  expect(one.textTokens).toBe(one.tokens)
  const many = estimateCalls({
    model: 'm',
    prompt: ['a long prompt of some words', 'a'],
    suffix: 'end',
    n: 2,
    best_of: 3,
  })
  const short = estimateCalls({ model: 'm', prompt: 'a', suffix: 'end' })
  expect(many).toEqual({ tokens: 3 * (one.tokens + short.tokens), textTokens: one.tokens })
  expect(estimateCalls({ model: 'm', prompt: [[1, 2, 3], [4]] })).toEqual({ tokens: 4, textTokens: 3 })
})
