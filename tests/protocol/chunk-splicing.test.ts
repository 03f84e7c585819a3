import { describe, expect, spyOn, test } from 'bun:test'
import fc from 'fast-check'
import { ChunkRewriter } from '../../src/protocol/chunk-rewriter.ts'
import { textWeight } from '../../src/protocol/token-estimate.ts'
import {
  begun,
  choiceKeys,
  events,
  expected,
  finishReasons,
  identity,
  type Json,
  publicKeys,
  secret,
} from './chunk-oracle.ts'

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

describe('§6: a node cannot smuggle anything past the allow-list', () => {
  const opening = '{"id":"x","choices":[{"index":0,"delta":{"content":"'
  const closing = '"},"finish_reason":null}],"system_fingerprint":"secret"}'
  const taught = () => {
    const rewriter = begun()
    for (let i = 0; i < 3; i++) rewriter.accept(`${opening}warm${closing}`)
    return rewriter
  }
  const agrees = (rewriter: ChunkRewriter, line: string) => {
    const accepted = rewriter.accept(line)
    const wanted = expected(line)
    if (typeof wanted === 'string') expect([line, accepted.kind]).toEqual([line, wanted])
    else if (accepted.kind !== 'chunk') throw new Error(`${accepted.kind}: ${line}`)
    else expect(events(accepted.text)).toEqual([wanted])
  }

  test.each([
    [
      'a quote ends the text early',
      '"},"finish_reason":null}],"secret":"x","choices":[{"index":0,"delta":{"content":"',
    ],
    ['a second key in delta', '","extra":"y'],
    ['a second content: the last one counts', 'a","content":"b'],
    ['an escape cut off', 'a\\'],
    ['an escape that eats the quote', '\\\\\\'],
    ['a bare control character', 'a\u0001b'],
    ['a bare line feed', 'a\nb'],
    ['a bad escape', '\\x41'],
    ['a short unicode escape', '\\u12'],
    ['only a backslash', '\\'],
    ['all escapes there are', '\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000'],
    ['a lone surrogate, escaped', '\\ud83d'],
    ['nothing', ''],
  ] as const)('%s', (_name, inside) => {
    agrees(taught(), `${opening}${inside}${closing}`)
  })

  test('any text between the learnt ends', () => {
    const piece = fc.constantFrom(
      '"',
      '\\',
      '}',
      ']',
      ',',
      ':',
      '{',
      '[',
      'a',
      '\\u00',
      '"content":"',
      '"finish_reason":"stop"',
      '\n',
      '🙂',
    )
    const inside = fc.array(piece, { maxLength: 12 }).map((parts) => parts.join(''))
    fc.assert(
      fc.property(fc.array(inside, { minLength: 1, maxLength: 4 }), (insides) => {
        const rewriter = taught()
        for (const text of insides) {
          const line = `${opening}${text}${closing}`
          const wanted = expected(line)
          const accepted = rewriter.accept(line)
          if (accepted.kind === 'chunk')
            for (const event of events(accepted.text)) {
              expect(Object.keys(event).sort()).toEqual(publicKeys)
            }
          expect(accepted.kind).toBe(typeof wanted === 'string' ? wanted : 'chunk')
        }
      }),
      { numRuns: 500 },
    )
  })

  test('the ends of a learnt chunk may not overlap', () => {
    const rewriter = begun()
    const short = '{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'
    rewriter.accept(short)
    agrees(rewriter, short.replace('"a"', '""'))
    agrees(rewriter, short.replace('"a"}', '"'))
  })

  test.each([
    ['in logprobs', { content: 'x' }, { logprobs: { note: '@penstock-content@' } }],
    ['as a key of delta', { '@penstock-content@': 'x' }, {}],
    ['as the text itself', { content: '@penstock-content@' }, {}],
  ] as const)('the mark by which the product finds the text, sent by a node %s', (_where, delta, more) => {
    const rewriter = begun()
    const [key = ''] = Object.keys(delta)
    for (const text of ['one', 'two', '@penstock-content@', 'three']) {
      const changed = Object.values(delta)[0] === 'x' ? { [key]: text } : { ...delta }
      agrees(rewriter, JSON.stringify({ choices: [{ index: 0, delta: changed, finish_reason: null, ...more }] }))
    }
  })

  test('the text of the delta elsewhere in the chunk does not mislead', () => {
    const rewriter = begun()
    for (const content of ['a', 'b', 'c']) {
      agrees(
        rewriter,
        `{"trap":{"delta":{"content":"${content}"}},"choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":null}]}`,
      )
      agrees(
        rewriter,
        `{"choices":[{"index":0,"delta":{"content":"q"},"delta":{"content":"${content}"},"finish_reason":null}]}`,
      )
    }
  })

  test('any JSON of a node gives only keys of the allow-list', () => {
    const choice = fc.record(
      {
        index: fc.constantFrom(0, 1, -1, 'x', null),
        delta: fc.oneof(fc.jsonValue(), fc.dictionary(fc.string(), fc.jsonValue())),
        finish_reason: fc.constantFrom(null, 'stop', 'eos', '', 3),
        logprobs: fc.jsonValue(),
        text: fc.string(),
        stop_reason: fc.string(),
      },
      { requiredKeys: [] },
    )
    const chunk = fc.record(
      {
        choices: fc.oneof(fc.array(choice, { maxLength: 3 }), fc.jsonValue()),
        usage: fc.jsonValue(),
        error: fc.constantFrom(null, undefined),
        system_fingerprint: fc.string(),
        timings: fc.jsonValue(),
      },
      { requiredKeys: [] },
    )
    let chunks = 0
    fc.assert(
      fc.property(fc.array(chunk), (given) => {
        const rewriter = new ChunkRewriter(identity)
        for (const one of given) {
          const accepted = rewriter.accept(JSON.stringify(one))
          if (accepted.kind !== 'chunk') continue
          for (const event of events(accepted.text)) {
            chunks++
            expect(Object.keys(event).sort()).toEqual(publicKeys)
            for (const each of event.choices as Json[]) {
              expect(Object.keys(each).every((key) => choiceKeys.includes(key))).toBe(true)
              expect(Number.isSafeInteger(each.index)).toBe(true)
              expect(each.finish_reason === null || finishReasons.includes(String(each.finish_reason))).toBe(true)
            }
          }
        }
      }),
      { numRuns: 400 },
    )
    expect(chunks).toBeGreaterThan(100)
  })
})
