import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Confidences, noConfidences } from '../src/confidences.ts'

const key = 'sk-local/AbC.123+xyz=='
const told = new Confidences([key])
const escaped = (text: string) =>
  [...text].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
const percent = (text: string) => [...text].map((each) => `%${each.charCodeAt(0).toString(16)}`).join('')

describe('§5: what was told to a node is struck from its words', () => {
  test.each([
    ['as it is', key],
    ['as a header', `authorization: Bearer ${key}`],
    ['in other letters', `AUTHORIZATION: BEARER ${key.toUpperCase()}`],
    ['in JSON', JSON.stringify({ headers: { authorization: `bearer ${key}` } })],
    ['in JSON within JSON', JSON.stringify(JSON.stringify({ authorization: key }))],
    ['in escapes of JSON', escaped(key)],
    ['in escapes within JSON', JSON.stringify(escaped(key))],
    ['half in escapes', key.slice(0, 11) + escaped(key.slice(11))],
    ['with its slash behind a backslash', key.replaceAll('/', '\\/')],
    ['in a URL', `https://x/?key=${encodeURIComponent(key)}&y`],
    ['in a URL, every character', percent(key).toUpperCase()],
    ['in base64', btoa(key)],
    ['in base64, behind one byte', btoa(`x${key}`)],
    ['in base64 of a URL, behind more', btoa(`Bearer ${key} and`).replaceAll('+', '-').replaceAll('/', '_')],
    ['cut off', `Bearer ${key.slice(0, 13)}`],
  ])('%s', (_name, text) => {
    const clean = told.strike(`before ${text} behind`)
    expect(clean).toStartWith('before ')
    expect(clean).toEndWith('behind')
    for (const left of [key.slice(0, 8), key.slice(12, 19), 'c2stbG9j', '%73%6b', 'u0062'])
      expect(clean.toLowerCase()).not.toContain(left.toLowerCase())
    expect(clean).toContain('[…]')
  })

  test('the signature of the router, and a key that belongs to somebody else', () => {
    const signature = `kid=r1,ts=1763900000,nonce=${'N'.repeat(22)},sig=${'S'.repeat(86)}`
    for (const text of [
      signature,
      JSON.stringify({ signature }),
      `nonce=${'N'.repeat(22)}`,
      'Bearer sk-other-1234567',
    ]) {
      expect(noConfidences.strike(`it got ${text}.`)).not.toMatch(/N{8}|S{8}|1234567/)
    }
  })

  test('a short key is struck where a text calls it one, and is a word elsewhere', () => {
    const short = new Confidences(['EMPTY'])
    for (const text of [
      'Bearer EMPTY',
      '{"authorization":"bearer empty"}',
      'api_key=EMPTY',
      'x-api-key: EMPTY',
      'token%20EMPTY',
    ]) {
      expect(short.strike(text)).not.toMatch(/empty/i)
    }
    for (const text of ['the list is EMPTY', 'EMPTY_LIST', 'Bearer EMPTYING']) expect(short.strike(text)).toBe(text)
  })

  test('what is no key stays', () => {
    for (const text of [
      'Invalid bearer token',
      'max tokens: 4096',
      'sk-local is missing',
      'kidney, signature, nonce',
    ]) {
      expect(told.strike(text)).toBe(text)
    }
  })

  test('a name that holds a key is known, and a short key is none', () => {
    expect([`m-${key}`, key.toUpperCase(), `x/${btoa(key)}`].map((name) => told.isIn(name))).toEqual([true, true, true])
    expect(['qwen3-8b', 'sk-local'].map((name) => told.isIn(name))).toEqual([false, false])
    expect(new Confidences(['EMPTY']).isIn('EMPTY')).toBe(false)
    expect(noConfidences.isIn('anything')).toBe(false)
  })

  test('whatever the key and what stands around it', () => {
    const keys = fc.string({ minLength: 8, maxLength: 80, unit: fc.constantFrom(...'abcXYZ019-_./+=~!$%&*(){}[]^|\\') })
    const ways = fc.constantFrom((text: string) => text, JSON.stringify, encodeURIComponent, btoa, escaped)
    fc.assert(
      fc.property(keys, ways, fc.string(), fc.string(), (secret, way, before, after) => {
        const clean = new Confidences([secret]).strike(`${before} ${way(secret)} ${after}`)
        expect(clean).not.toContain(way(secret))
      }),
      { numRuns: 2_000 },
    )
  })

  test('a text that is made to be slow is read like any other', () => {
    const texts = [
      '\\',
      'bearer ',
      'bearer\\',
      's',
      'sk-local/AbC',
      '%',
      '%7',
      'nonce=',
      'token',
      '\\u00',
      key.slice(0, -1),
    ]
    for (const text of texts) {
      for (const one of [told, new Confidences(['EMPTY']), new Confidences(['\\\\\\\\\\\\\\\\', 'aaaaaaaa'])]) {
        expect(one.strike(text.repeat(8_192 / text.length))).toBeString()
      }
    }
  })
})
