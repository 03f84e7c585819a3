import { expect, test } from 'bun:test'
import type { StreamWriter } from '../../../src/actors/operations/operation.ts'
import { MessagesStream } from '../../../src/protocol/dialects/messages/stream.ts'
import { echoOf } from '../../../src/protocol/dialects/responses/echo.ts'
import { ResponsesStream } from '../../../src/protocol/dialects/responses/stream.ts'

const identity = { id: 'a', created: 0, model: 'm' }
const chunk = (delta: object, finish_reason: string | null = null) =>
  JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })
const call = (index: number, more: object) => ({ tool_calls: [{ index, type: 'function', ...more }] })
const makers: readonly (readonly [string, () => StreamWriter])[] = [
  ['Messages', () => new MessagesStream(identity)],
  ['Responses', () => new ResponsesStream(identity, echoOf({ model: 'm', input: 'x' }))],
]

test.each(makers)('§28: a stream of %s keeps no endless row of items that say next to nothing', (_, make) => {
  const calls = make()
  const many = (at: number) => calls.accept(chunk(call(at, { id: `c${at}`, function: { name: 'f' } }))).kind
  expect(Array.from({ length: 200_000 }, (_, at) => many(at))).toContain('failed')
  const turns = make()
  const turn = (at: number) => turns.accept(chunk(at % 2 === 0 ? { content: 'x' } : { reasoning_content: 'y' })).kind
  expect(Array.from({ length: 200_000 }, (_, at) => turn(at))).toContain('failed')
})

test('§28: a stream of Responses keeps no endless names of calls', () => {
  const long = new ResponsesStream(identity, echoOf({ model: 'm', input: 'x' }))
  const named = (at: number) =>
    long.accept(chunk(call(at, { id: `c${at}`, function: { name: 'f'.repeat(1024 * 1024) } }))).kind
  expect(Array.from({ length: 17 }, (_, at) => named(at))).toContain('failed')
})

test('§35: a stream of Responses keeps many probabilities, but no endless row of them', () => {
  const long = new ResponsesStream(identity, echoOf({ model: 'm', input: 'x' }))
  const content = Array.from({ length: 1_000 }, () => ({ token: 'x'.repeat(1_000), logprob: 0 }))
  const choice = { index: 0, delta: { content: 'x' }, finish_reason: null, logprobs: { content } }
  const kinds = Array.from({ length: 20 }, () => long.accept(JSON.stringify({ choices: [choice] })).kind)
  expect(new Set(kinds.slice(0, 10))).toEqual(new Set(['chunk']))
  expect(kinds).toContain('failed')
})

test('§35: a probability beyond all numbers does not become null', () => {
  const stream = new ResponsesStream(identity, echoOf({ model: 'm', input: 'x' }))
  const entry = (logprob: string) => `{"token":"x","logprob":${logprob}}`
  const logprobs = `{"content":[${entry('-1e999')},${entry('-1')}]}`
  const said = stream.accept(
    `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null,"logprobs":${logprobs}}]}`,
  )
  const kept = '"logprobs":[{"token":"x","logprob":-1,"bytes":[],"top_logprobs":[]}]'
  expect(said).toMatchObject({ kind: 'chunk', text: expect.stringContaining(kept) })
})

test('§28: last words of a Messages stream that cannot be said are a failure, and are not left out', () => {
  const stream = new MessagesStream(identity)
  const first = { id: 'c0', function: { name: 'f', arguments: '{' } }
  expect(stream.accept(chunk(call(0, first))).kind).toBe('chunk')
  expect(stream.accept(chunk(call(1, { ...first, id: 'c1' }))).kind).toBe('chunk')
  expect(stream.accept(chunk(call(0, { function: { arguments: '}' } }), 'tool_calls')).kind).toBe('failed')
})
