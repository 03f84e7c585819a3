import { expect, test } from 'bun:test'
import { backoffMs, jittered } from '../src/backoff.ts'

test('a wait doubles with each failure in a row, up to its bound', () => {
  const backoff = { firstMs: 100, maxMs: 1_000 }
  expect([0, 1, 2, 3, 4, 5, 6, 5_000].map((failures) => backoffMs(backoff, failures))).toEqual([
    100, 100, 200, 400, 800, 1_000, 1_000, 1_000,
  ])
  expect([1, 2, 9].map((failures) => backoffMs({ firstMs: 70, maxMs: 70 }, failures))).toEqual([70, 70, 70])
})

test('a wait is spread by its share either way', () => {
  expect([0, 0.25, 0.5, 0.75].map((random) => jittered(5_000, 0.1, random))).toEqual([4_500, 4_750, 5_000, 5_250])
  expect(jittered(5_000, 0, 0.9)).toBe(5_000)
})
