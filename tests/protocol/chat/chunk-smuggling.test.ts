import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { ChunkRewriter } from '../../../src/protocol/chat/chunk-rewriter.ts'
import { begun, choiceKeys, events, expected, finishReasons, identity, type Json, publicKeys } from './chunk-oracle.ts'

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
