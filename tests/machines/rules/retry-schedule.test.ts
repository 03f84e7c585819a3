import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  deliveryAttemptsMax,
  deliveryDelaysMs,
  nextDeliveryDelayMs,
  nextJobDelayMs,
  retryAfterMs,
} from '../../../src/machines/rules/retry-schedule.ts'

const hourMs = 3_600_000

test('§11: 10 attempts, about 75.6 hours', () => {
  expect(deliveryAttemptsMax).toBe(10)
  const total = deliveryDelaysMs.reduce((sum, delay) => sum + delay, 0)
  expect(total / hourMs).toBeCloseTo(75.58, 1)
})

test('§11: each delay times 0.9 to 1.1; a wish lengthens it, up to 24 h, and never shortens it', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 9 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.option(fc.integer({ min: 0, max: 100 * hourMs })),
      (attempts, random, wish) => {
        const delay = nextDeliveryDelayMs(attempts, random, wish) ?? -1
        const plain = deliveryDelaysMs[attempts] ?? 0
        const least = Math.max(plain * 0.9 - 1, Math.min(wish ?? 0, 24 * hourMs))
        return delay >= least && delay <= Math.max(plain * 1.1 + 1, Math.min(wish ?? 0, 24 * hourMs))
      },
    ),
  )
  expect(nextDeliveryDelayMs(10, 0.5, null)).toBeNull()
})

test('§10: 5 s before the second attempt of a job, 30 s before the third, and no fourth', () => {
  expect([1, 2, 3].map(nextJobDelayMs)).toEqual([5_000, 30_000, null])
})

test('RFC 9110: Retry-After in seconds or as a date', () => {
  const now = Date.parse('2026-11-20T16:00:00.000Z')
  expect(retryAfterMs('120', now)).toBe(120_000)
  expect(retryAfterMs('Fri, 20 Nov 2026 16:01:00 GMT', now)).toBe(60_000)
  for (const text of [null, '', '-1', '1.5', 'soon', 'Fri, 20 Nov 2026 15:00:00 GMT', '99999999999']) {
    expect(retryAfterMs(text, now)).toBeNull()
  }
})
