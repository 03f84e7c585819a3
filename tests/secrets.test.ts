import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { tokenPrefixes } from '../src/brand.ts'
import {
  displayPrefix,
  equalBytes,
  hashToken,
  isWellFormedToken,
  newToken,
  sha256Hex,
  type TokenKind,
} from '../src/secrets.ts'

const counting = Uint8Array.from({ length: 32 }, (_, i) => 0x21 + i)
const vector = 'svc_gateway_7r84C2XeCDzjBL1ukuxrbwSR6biqKcPnKHlgyr3UzuS4MeTFj'
const kinds = Object.keys(tokenPrefixes) as readonly TokenKind[]

describe('§4: tokens', () => {
  test('§20: the vector', () => {
    expect(newToken('gateway', counting)).toBe(vector)
    expect(isWellFormedToken(vector, 'gateway')).toBe(true)
  })

  test.each(kinds.map((kind) => [kind] as const))('%s: prefix, 43 characters, 6 of checksum', (kind) => {
    const token = newToken(kind)
    expect(token).toMatch(new RegExp(`^${tokenPrefixes[kind]}[0-9A-Za-z]{49}$`))
    expect(isWellFormedToken(token, kind)).toBe(true)
    for (const other of kinds) if (other !== kind) expect(isWellFormedToken(token, other)).toBe(false)
  })

  test('the extremes of the random bytes keep the length', () => {
    for (const byte of [0, 0xff]) {
      const token = newToken('gateway', new Uint8Array(32).fill(byte))
      expect(token).toHaveLength(vector.length)
      expect(isWellFormedToken(token, 'gateway')).toBe(true)
    }
  })

  test('one changed character is noticed without the database', () => {
    const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
    const start = tokenPrefixes.gateway.length
    fc.assert(
      fc.property(fc.integer({ min: start, max: vector.length - 1 }), fc.constantFrom(...base62), (at, character) => {
        const changed = vector.slice(0, at) + character + vector.slice(at + 1)
        expect(isWellFormedToken(changed, 'gateway')).toBe(changed === vector)
      }),
    )
  })

  test.each([
    ['shorter', vector.slice(0, -1)],
    ['longer', `${vector}A`],
    ['without its prefix', vector.slice(tokenPrefixes.gateway.length)],
    ['empty', ''],
  ] as const)('%s is no token', (_name, token) => {
    expect(isWellFormedToken(token, 'gateway')).toBe(false)
  })
})

test('§4: at rest a token is its HMAC-SHA-256 under the pepper', () => {
  // RFC 4231, test case 2.
  expect(hashToken('Jefe', 'what do ya want for nothing?').toString('hex')).toBe(
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  )
  expect(hashToken('a', vector)).not.toEqual(hashToken('b', vector))
  expect(displayPrefix(vector)).toBe('svc_gateway_7r84')
  expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

test('§4: equal only when length and bytes are', () => {
  expect(equalBytes(Buffer.from('abc'), Buffer.from('abc'))).toBe(true)
  expect(equalBytes(Buffer.from('abc'), Buffer.from('abd'))).toBe(false)
  expect(equalBytes(Buffer.from('abc'), Buffer.from('ab'))).toBe(false)
})
