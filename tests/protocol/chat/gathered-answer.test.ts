import { heapStats } from 'bun:jsc'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type PublicCompletion, publicCompletion } from '../../../src/protocol/chat/completion.ts'
import { GatheredAnswer, type GatherState } from '../../../src/protocol/chat/gathered-answer.ts'
import { cutAt, streamOf, wholeAnswers } from '../../support/nodes/streamed-answer.ts'

/** As the client would be told it. */
const told = (completion: PublicCompletion | null) =>
  completion === null
    ? null
    : JSON.parse(
        JSON.stringify({
          ...completion,
          outputWeight: Math.round(completion.outputWeight() * 1_000),
          svc: completion.svc,
        }),
      )

function gathered(bytes: Uint8Array, cuts: readonly number[] = []): { state: GatherState; answer: GatheredAnswer } {
  const answer = new GatheredAnswer()
  for (const piece of cutAt(bytes, cuts)) answer.push(piece)
  return { state: answer.end(), answer }
}

const event = (value: unknown) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`
const chunk = (delta: object, finish: string | null = null, more: object = {}) =>
  event({ choices: [{ index: 0, delta, finish_reason: finish, ...more }] })
const bytesOf = (...events: string[]) => new TextEncoder().encode(events.join(''))
const done = event('[DONE]')
const answerOf = (...events: string[]) => {
  const { state, answer } = gathered(bytesOf(...events))
  return state === 'complete' ? told(answer.completion()) : state
}
const messageOf = (...events: string[]) => answerOf(...events, chunk({}, 'stop'), done)?.choices[0].message

describe('§27: a whole answer that was asked for as a stream', () => {
  test('is the same public answer as the whole one, however it is cut', () => {
    fc.assert(
      fc.property(wholeAnswers, fc.infiniteStream(fc.nat({ max: 1_000 })), (whole, random) => {
        const next = (max: number) => random.next().value % (max + 1)
        const bytes = streamOf(whole, next)
        const cuts = Array.from({ length: next(6) }, () => next(bytes.length))
        const { state, answer } = gathered(bytes, cuts)
        expect(state).toBe('complete')
        expect(told(answer.completion())).toEqual(told(publicCompletion(JSON.stringify(whole))))
      }),
      { numRuns: 500 },
    )
  })

  test('llama.cpp’s own shape: text', () => {
    const answer = answerOf(
      chunk({ role: 'assistant', content: null }),
      chunk({ reasoning_content: 'Well' }),
      chunk({ content: 'Hel' }),
      chunk({ content: 'lo' }),
      chunk({}, 'length'),
      event({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }, timings: {} }),
      done,
    )
    expect(answer).toMatchObject({
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello', reasoning_content: 'Well' },
          finish_reason: 'length',
        },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    })
  })

  test('tool calls are told apart by their index, and lose it', () => {
    const call = (index: number, more: object) => chunk({ tool_calls: [{ index, ...more }] })
    const message = messageOf(
      chunk({ role: 'assistant', content: null }),
      call(1, { id: 'b', type: 'function', function: { name: 'g', arguments: '' } }),
      call(0, { id: 'a', type: 'function', function: { name: 'f', arguments: '' } }),
      call(0, { id: 'a', type: 'function', function: { arguments: '{"x"' } }),
      call(1, { function: { arguments: '{}' } }),
      call(0, { function: { arguments: ':1}' } }),
    )
    expect(message).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
        { id: 'b', type: 'function', function: { name: 'g', arguments: '{}' } },
      ],
    })
  })

  test('nothing said is the empty text, a refusal is no text', () => {
    expect(messageOf()).toEqual({ role: 'assistant', content: '' })
    expect(messageOf(chunk({ refusal: 'n' }), chunk({ refusal: 'o' }))).toEqual({
      role: 'assistant',
      content: null,
      refusal: 'no',
    })
  })

  test('the text of the finish chunk, and of a second one, is part of the answer', () => {
    const answer = answerOf(
      chunk({ content: 'a' }),
      chunk({ content: 'b' }, 'stop'),
      chunk({ content: 'c' }, 'stop'),
      done,
    )
    expect(answer.choices[0].message.content).toBe('abc')
  })

  test('a member called __proto__ is a member, and changes nothing else', () => {
    const raw = (delta: string) => `data: {"choices":[{"index":0,"delta":${delta},"finish_reason":null}]}\n\n`
    const [first, second] = [
      '{"__proto__":{"polluted":"a"},"x":{"__proto__":{"y":"a"}}}',
      '{"__proto__":{"polluted":"b"}}',
    ]
    const { answer } = gathered(
      bytesOf(raw(first), raw(second), raw('{"x":{"__proto__":{"y":"b"}}}'), chunk({}, 'stop')),
    )
    expect(JSON.stringify(answer.completion().choices[0]?.message)).toBe(
      '{"role":"assistant","content":"","__proto__":{"polluted":"ab"},"x":{"__proto__":{"y":"ab"}}}',
    )
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })

  test.each([
    ['no finish chunk', [chunk({ content: 'a' })]],
    ['[DONE] before it', [chunk({ content: 'a' }), done]],
    ['an error', [chunk({ content: 'a' }), event({ error: { message: 'x' } }), chunk({}, 'stop'), done]],
    ['an error line', [chunk({ content: 'a' }), 'error: {"code":500}\n\n', chunk({}, 'stop'), done]],
    ['a line that is no JSON', [chunk({ content: 'a' }), event('{"choices":'), chunk({}, 'stop'), done]],
    ['a whole answer', ['{"choices":[{"message":{"role":"assistant","content":"x"}}]}']],
    ['nothing', []],
  ] as const)('%s: broken', (_name, events) => {
    expect(answerOf(...events)).toBe('broken')
  })

  test('without usage and [DONE] it is complete at its end; before that it waits for the usage', () => {
    const answer = new GatheredAnswer()
    expect(answer.push(bytesOf(chunk({ content: 'a' })))).toBe('open')
    expect(answer.push(bytesOf(chunk({}, 'stop')))).toBe('finishing')
    expect(answer.end()).toBe('complete')
    expect(answer.completion().usage).toBeNull()
  })

  test('an answer larger than a whole one may be is broken off', () => {
    const answer = new GatheredAnswer()
    const megabyte = bytesOf(chunk({ content: 'x'.repeat(1024 * 1024) }))
    const states = Array.from({ length: 17 }, () => answer.push(megabyte))
    expect(states.indexOf('broken')).toBe(15)
  })

  test('what it keeps is counted, and where there is no memory for it, it is broken off', () => {
    const asked: number[] = []
    const answer = new GatheredAnswer((bytes) => asked.push(bytes) < 3)
    const kilobyte = bytesOf(chunk({ content: 'x'.repeat(1_000) }))
    expect([1, 2, 3].map(() => answer.push(kilobyte))).toEqual(['open', 'open', 'broken'])
    expect(asked.every((bytes, at) => bytes >= 2_000 * (at + 1))).toBe(true)
  })

  test('a text in pieces of four characters takes about as much as it counts, not twelve times as much', () => {
    const answer = new GatheredAnswer()
    const words = bytesOf(...Array.from({ length: 100 }, (_, at) => chunk({ content: `a${at}bcd`.slice(0, 4) })))
    Bun.gc(true)
    const before = heapStats()
    for (let at = 0; at < 5_000; at++) answer.push(words)
    Bun.gc(true)
    const { heapSize, extraMemorySize } = heapStats()
    const growth = heapSize + extraMemorySize - before.heapSize - before.extraMemorySize
    expect(growth).toBeLessThan(2 * answer.keptBytes)
    expect(answer.push(bytesOf(chunk({}, 'stop')))).toBe('finishing')
    expect(String(answer.completion().choices[0]?.message.content).length).toBe(5_000 * 100 * 4)
  })
})
