import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { canonicalJson } from '../../../src/protocol/json/canonical-json.ts'

describe('RFC 8785 (JCS)', () => {
  test('§3.2.2 and §3.2.4: the sample of the RFC', () => {
    const sample = {
      numbers: [Number('333333333.33333329'), 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: '\u20ac$\u000f\u000aA\'\u0042\u0022\u005c\\"\u002f',
      literals: [null, true, false],
    }
    expect(canonicalJson(sample)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
  })

  test('§3.2.3: keys are sorted by UTF-16 code units', () => {
    const sample = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    }
    const keys = Object.keys(JSON.parse(canonicalJson(sample)) as object)
    // Object.keys moves the integer-like key to the front whatever the text says, so the text is what is looked at.
    const order = ['\\r', '1', '\u0080', 'ö', '€', '😀', '\ufb33'].map((key) =>
      canonicalJson(sample).indexOf(`"${key}":`),
    )
    expect(order).toEqual([...order].sort((a, b) => a - b))
    expect(order).not.toContain(-1)
    expect(keys).toHaveLength(7)
  })

  test.each([
    ['zero', -0, '0'],
    ['one', 1.0, '1'],
    ['largest exact integer', 9007199254740991, '9007199254740991'],
    ['exponent', 1e21, '1e+21'],
    ['smallest', 5e-324, '5e-324'],
    ['null', null, 'null'],
    ['empty', {}, '{}'],
    ['empty list', [], '[]'],
    ['undefined fields are absent', { a: undefined, b: 1 }, '{"b":1}'],
    ['undefined items are null', [undefined, 1], '[null,1]'],
    ['nested', { b: [{ d: 1, c: 2 }], a: 0 }, '{"a":0,"b":[{"c":2,"d":1}]}'],
  ] as const)('%s', (_name, value, text) => {
    expect(canonicalJson(value)).toBe(text)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY])('%p has no form', (value) => {
    expect(() => canonicalJson({ value })).toThrow(RangeError)
  })

  test('the order in which keys were added changes nothing, and the value survives', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse())
        const text = canonicalJson(value)
        expect(canonicalJson(reversed)).toBe(text)
        expect(canonicalJson(JSON.parse(text))).toBe(text)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })
})
