import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { idMs, ulid } from '../src/ids.ts'

test('§1: an id begins with its moment in the digits of a ULID, in the order of time', () => {
  // Of the ULID specification.
  expect(ulid(1_469_918_176_385).slice(0, 10)).toBe('01ARYZ6S41')
  const ms = fc.integer({ min: 0, max: 2 ** 47 })
  fc.assert(
    fc.property(ms, fc.integer({ min: -2_000, max: 2_000 }), (at, more) => {
      const other = Math.max(0, at + more)
      expect(idMs(`req_${ulid(at)}`)).toBe(at)
      expect(idMs(`req_${ulid(other)}`)).toBe(other)
      if (other !== at) expect(ulid(at) < ulid(other)).toBe(at < other)
    }),
  )
})
