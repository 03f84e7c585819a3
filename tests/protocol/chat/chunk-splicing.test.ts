import { describe, expect, spyOn, test } from 'bun:test'
import fc from 'fast-check'
import { textWeight } from '../../../src/protocol/chat/token-estimate.ts'
import { begun, events, expected, type Json, secret } from './chunk-oracle.ts'

type Shape = (delta: Json) => Json
const shapes: readonly (readonly [name: string, shape: Shape])[] = [
  [
    'vLLM',
    (delta) => ({
      id: 'chatcmpl-9f',
      object: 'chat.completion.chunk',
      created: 1,
      model: secret,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: null, token_ids: null }],
      prompt_token_ids: null,
    }),
  ],
  [
    'llama.cpp',
    (delta) => ({
      choices: [{ finish_reason: null, index: 0, delta }],
      created: 1,
      id: 'chatcmpl-8a',
      model: secret,
      system_fingerprint: 'b6000-secret',
      object: 'chat.completion.chunk',
    }),
  ],
  [
    'Ollama',
    (delta) => ({
      id: 'chatcmpl-7',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'llama3:8b',
      system_fingerprint: 'fp_ollama',
      choices: [{ index: 0, delta: { role: 'assistant', ...delta }, finish_reason: null }],
    }),
  ],
  [
    'LM Studio',
    (delta) => ({
      id: 'chatcmpl-6',
      object: 'chat.completion.chunk',
      created: 1,
      model: secret,
      system_fingerprint: secret,
      choices: [{ index: 0, delta: { role: 'assistant', ...delta }, logprobs: null, finish_reason: null }],
    }),
  ],
  [
    'OpenAI',
    (delta) => ({
      id: 'chatcmpl-5',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'gpt',
      service_tier: 'default',
      system_fingerprint: 'fp_secret',
      choices: [{ index: 0, delta, logprobs: null, finish_reason: null }],
      usage: null,
      obfuscation: String(Object.values(delta)[0]).length.toString(36),
    }),
  ],
  [
    'with logprobs',
    (delta) => ({
      choices: [{ index: 0, delta, finish_reason: null, logprobs: { content: [{ token: 'a', logprob: -0.5 }] } }],
    }),
  ],
]

/** The ways in which servers write JSON: V8 and pydantic, Python's `ensure_ascii`, Go's HTML-safe encoder. */
const nonAscii = /[\u0080-\uffff]/g
const hex = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
const writers: readonly (readonly [name: string, write: (value: unknown) => string])[] = [
  ['as UTF-8', (value) => JSON.stringify(value)],
  ['all ASCII', (value) => JSON.stringify(value).replaceAll(nonAscii, hex)],
  ['HTML-safe', (value) => JSON.stringify(value).replaceAll(/[<>&\u2028\u2029]/g, hex)],
  ['escaped slashes', (value) => JSON.stringify(value).replaceAll('/', '\\/')],
  ['with spaces', (value) => JSON.stringify(value, null, 1).replaceAll('\n', ' ')],
]

/** Any UTF-16 at all, lone surrogates included, with what JSON must escape made likely. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(fc.constantFrom('"', '\\', '\n', '\u0000', '\u001f', '🙂', '漢', '\u2028', '}', '{"a":"b"}', '</x>'))
    .map((parts) => parts.join('')),
  fc.array(fc.nat(0xffff)).map((units) => String.fromCharCode(...units)),
  fc.string(),
)

describe('§6: every content of every server comes out as it went in', () => {
  const table = shapes.flatMap(([shapeName, shape]) =>
    writers.map(([writerName, write]) => [`${shapeName}, ${writerName}`, shape, write] as const),
  )
  test.each(table)('%s', (_name, shape, write) => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom('content', 'reasoning_content'), anyText), { minLength: 2 }),
        (parts) => {
          const rewriter = begun()
          for (const [key, text] of parts) {
            const line = write(shape({ [key]: text }))
            const accepted = rewriter.accept(line)
            if (accepted.kind !== 'chunk') throw new Error(accepted.kind)
            expect(events(accepted.text)).toEqual([expected(line) as Json])
          }
        },
      ),
      { numRuns: 60 },
    )
  })

  test('and the estimate is the same whether a chunk was spliced or parsed', () => {
    const [, write] = writers[1] ?? ['', JSON.stringify]
    fc.assert(
      fc.property(fc.array(anyText, { minLength: 3 }), (texts) => {
        const rewriter = begun()
        for (const content of texts) {
          rewriter.accept(write({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }))
        }
        // A lone surrogate cannot be sent as UTF-8, its escape can: both count as one character.
        const weight = texts.reduce((sum, text) => sum + textWeight(text), 0)
        expect(rewriter.outputWeight).toBeCloseTo(weight, 6)
      }),
    )
  })

  test.each([
    ['another object', (hidden: string) => ({ draft: { delta: { content: hidden } } })],
    ['a second choices', (hidden: string) => ({ choices2: [{ index: 0, delta: { content: hidden } }] })],
    ['a list', (hidden: string) => ({ debug: [{ delta: { content: hidden } }, { delta: { content: 'x' } }] })],
  ])('the like of the text elsewhere in the chunk is not taken for it: %s', (_name, aside) => {
    const rewriter = begun()
    for (let at = 0; at < 100; at++) {
      const choices = [{ index: 0, delta: { content: 'said' }, finish_reason: null }]
      const line = JSON.stringify({ ...aside(`hidden ${at}`), choices })
      const accepted = rewriter.accept(line)
      if (accepted.kind !== 'chunk') throw new Error(accepted.kind)
      expect(events(accepted.text)).toEqual([expected(line) as Json])
      expect(accepted.text).not.toContain('hidden')
    }
  })

  test('chunks that differ in one text only are not parsed', () => {
    const parse = spyOn(JSON, 'parse')
    try {
      for (const [, shape] of shapes.filter(([name]) => name !== 'OpenAI')) {
        const rewriter = begun()
        for (let i = 0; i < 4; i++) rewriter.accept(JSON.stringify(shape({ content: `warm ${i}` })))
        const lines = Array.from({ length: 100 }, (_, i) => JSON.stringify(shape({ content: ` token ${i}` })))
        parse.mockClear()
        for (const line of lines) rewriter.accept(line)
        expect(parse.mock.calls.length).toBe(0)
      }
    } finally {
      parse.mockRestore()
    }
  })
})
