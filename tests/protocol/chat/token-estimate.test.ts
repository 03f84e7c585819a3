import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  estimatePrompt,
  promptTokens,
  promptTokensLeast,
  textWeight,
  textWeightPerUnitMax,
} from '../../../src/protocol/chat/token-estimate.ts'

/** The weights of §7 in tenths, by code point, written without the shortcuts of the product. */
function tenths(text: string): number {
  let sum = 0
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0
    sum += point < 0x80 ? 3 : point < 0x2e80 ? 6 : point <= 0xffff ? 12 : 20
  }
  return sum
}

describe('§7: weight of a text by code point', () => {
  test.each([
    ['ASCII', 'abcdefghij', 3],
    ['ASCII, long enough for the shortcut', 'a'.repeat(1000), 300],
    ['U+0080', '\u0080', 0.6],
    ['U+2E7F', '\u2e7f', 0.6],
    ['U+2E80', '\u2e80', 1.2],
    ['U+FFFF', '\uffff', 1.2],
    ['supplementary', '🙂', 2],
    ['a lone high surrogate counts as one unit', '\ud83d', 1.2],
    ['a lone low surrogate counts as one unit', '\ude42', 1.2],
    ['empty', '', 0],
    ['German', 'äöü', 1.8],
    ['Chinese', '漢字', 2.4],
  ] as const)('%s', (_name, text, weight) => {
    expect(textWeight(text)).toBeCloseTo(weight, 9)
  })

  test('any text weighs what its code points weigh, and never more than the ceiling per UTF-16 unit', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        expect(textWeight(text)).toBeCloseTo(tenths(text) / 10, 6)
        expect(textWeight(text)).toBeLessThanOrEqual(textWeightPerUnitMax * text.length + 1e-9)
      }),
    )
  })
})

const user = (content: unknown, more: object = {}) => ({ role: 'user', content, ...more })

describe('§7: tokens of a prompt', () => {
  const part = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
  const file = { type: 'file', file: { file_data: 'AAAA' } }
  const image = { type: 'image_url', image_url: { url: 'http://a/b' } }
  const tools = [{ type: 'function', function: { name: 'look', parameters: {} } }]
  const calls = [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{}' } }]
  const json = (value: unknown) => 0.3 * JSON.stringify(value).length
  test.each([
    ['a message is 4, a request 3', { messages: [user('')] }, 7],
    ['each message', { messages: [user(''), user(''), user(null)] }, 15],
    ['text, rounded up once', { messages: [user('abc'), user('abc')] }, Math.ceil(11 + 1.8)],
    ['text parts', { messages: [user([{ type: 'text', text: '漢字' }])] }, Math.ceil(7 + 2.4)],
    ['an image', { messages: [user([{ type: 'image_url', image_url: { url: 'x'.repeat(5000) } }])] }, 7 + 1024],
    ['a sound, however long', { messages: [user([part])] }, 7 + 1024],
    ['other parts by their JSON', { messages: [user([file])] }, Math.ceil(7 + json(file))],
    ['text beside a picture', { messages: [user([{ ...image, note: 'abc' }])] }, Math.ceil(7 + 1024 + 0.9)],
    ['text beside text', { messages: [user([{ type: 'text', text: 'abc', note: 'abc' }])] }, Math.ceil(7 + 1.8)],
    ['a name', { messages: [user('', { name: 'abcdefghij' })] }, 10],
    ['reasoning', { messages: [user('', { reasoning_content: '漢字' })] }, Math.ceil(7 + 2.4)],
    ['an unknown member, its name and its value', { messages: [user('', { abcde: 'fghij' })] }, 10],
    [
      'unknown members of the request',
      { messages: [user('')], documents: [{ text: '漢' }], n_keep: 9 },
      Math.ceil(7 + 0.3 * 14 + 1.2),
    ],
    [
      'members that are no prompt',
      { messages: [user('')], model: 'm', stop: ['x'], user: 'u', svc: { job_id: 'j' } },
      7,
    ],
    ['an object as content', { messages: [user({ a: 1 })] }, Math.ceil(7 + json({ a: 1 }))],
    ['tool definitions', { messages: [user('')], tools }, Math.ceil(7 + json(tools))],
    [
      'response format',
      { messages: [user('')], response_format: { type: 'json_object' } },
      Math.ceil(7 + json({ type: 'json_object' })),
    ],
    ['tool calls of earlier turns', { messages: [user(null, { tool_calls: calls })] }, Math.ceil(7 + json(calls))],
    ['null extras', { messages: [user('')], tools: null, response_format: null }, 7],
  ] as const)('%s', (_name, body, tokens) => {
    expect(promptTokens(body)).toBe(tokens)
  })

  test('media count for quotas and quotes, never for the context', () => {
    const messages = [user([{ type: 'text', text: 'abc' }, image, part])]
    expect(estimatePrompt({ messages })).toEqual({ tokens: Math.ceil(7.9 + 2048), textTokens: 8 })
    expect(promptTokensLeast({ messages: [...messages, user('x'.repeat(97))] })).toBe(12)
  })

  test('whatever a text is called, it costs the same as in content', () => {
    const text = 'some words that a model reads. '.repeat(20)
    const content = promptTokens({ messages: [user(text)] })
    for (const name of ['name', 'reasoning_content', 'tool_call_id', 'anything']) {
      expect(promptTokens({ messages: [user('', { [name]: text })] })).toBeGreaterThanOrEqual(content)
      expect(promptTokens({ messages: [user('', { [text]: name })] })).toBeGreaterThanOrEqual(content)
      expect(promptTokens({ messages: [user([{ type: name, [name]: text }])] })).toBeGreaterThanOrEqual(content)
    }
  })

  test('never one too many by a rounding error', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 90 }), { minLength: 1, maxLength: 5 }), (texts) => {
        const exact = texts.reduce((sum, text) => sum + 40 + tenths(text), 30)
        expect(promptTokens({ messages: texts.map((text) => user(text)) })).toBe(Math.ceil(exact / 10))
      }),
    )
    for (let length = 0; length < 300; length++) {
      expect(promptTokens({ messages: [user('a'.repeat(length))] })).toBe(7 + Math.ceil((3 * length) / 10))
    }
  })

  test('content of any JSON gives a number', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (content) => {
        const tokens = promptTokens({ messages: [user(content), user([content])] })
        expect(Number.isSafeInteger(tokens)).toBe(true)
        expect(tokens).toBeGreaterThanOrEqual(11)
      }),
    )
  })
})
