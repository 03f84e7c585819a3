import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { isoMs, isoTime } from '../src/time.ts'

const latestMs = Date.parse('9999-12-31T23:59:59.999Z')
/** Mostly of few seconds, as those of receipts are. */
const instant = fc.oneof(
  fc.integer({ min: 0, max: latestMs }),
  fc.integer({ min: 0, max: 3_000 }).map((ms) => 1_795_719_415_000 + ms),
)

test('§1: a time is read as it was written', () => {
  fc.assert(fc.property(instant, (ms) => expect(isoMs(isoTime(ms))).toBe(ms)))
})

test('a text that is no such time is read as `Date.parse` reads it, whatever was read before', () => {
  const broken = fc
    .tuple(instant, fc.integer({ min: 0, max: 23 }), fc.constantFrom(' ', '+', '-', '.', 'e', 'x', 'Z', '9', ''))
    .map(([ms, at, letter]) => isoTime(ms).slice(0, at) + letter + isoTime(ms).slice(at + 1))
  const others = fc.constantFrom(
    '',
    'Fri, 27 Nov 2026 01:00:00 GMT',
    'Fri Nov 27 2026 01:00:0Z',
    '2026-11-27',
    '2026-11-27T01:00:00.123+01:00',
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(instant.map(isoTime), broken, others)), (texts) => {
      for (const text of texts) expect(isoMs(text)).toBe(Date.parse(text))
    }),
  )
})
