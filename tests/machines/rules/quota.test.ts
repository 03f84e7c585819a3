import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { jitteredSeconds, rateLimitHeaders, reserveFor } from '../../../src/machines/rules/quota.ts'

test('§17: Retry-After is a whole number of at least 1, within 10 % of the wait', () => {
  expect(jitteredSeconds(0, 0.5)).toBe(1)
  expect(jitteredSeconds(300, 1)).toBe(1)
  expect(jitteredSeconds(20_000, 0)).toBe(18)
  expect(jitteredSeconds(20_000, 0.5)).toBe(20)
  expect(jitteredSeconds(20_000, 0.999)).toBe(22)
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 120_000 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (ms, random) => {
      const seconds = jitteredSeconds(ms, random)
      return Number.isInteger(seconds) && seconds >= 1 && Math.abs(seconds - ms / 1_000) <= ms / 10_000 + 1
    }),
  )
})

test('§17: a reserve follows the demand, grows under quick demand and is never more than its bound', () => {
  expect(reserveFor(100, Number.POSITIVE_INFINITY, 1_000)).toBe(0)
  expect(reserveFor(100, 2_000, 1_000)).toBe(50)
  expect(reserveFor(100, 100, 1_000)).toBe(200)
  expect(reserveFor(100_000, 100, 1_000)).toBe(1_000)
  expect(reserveFor(5, 1, 0.375)).toBe(0)
  expect(reserveFor(-5, 100, 1_000)).toBe(0)
})

test('§17: the headers name every window, what is left of it and when it is whole again', () => {
  const chat = { name: 'chat', limit: 120, windowSeconds: 60, remaining: 117.9, resetSeconds: 1.05 }
  const tokens = { name: 'chat-tokens', limit: 1_000, windowSeconds: 86_400, remaining: -3, resetSeconds: 60 }
  expect(rateLimitHeaders([chat])).toEqual({ 'ratelimit-policy': '"chat";q=120;w=60', ratelimit: '"chat";r=117;t=2' })
  expect(rateLimitHeaders([chat, tokens]).ratelimit).toBe('"chat";r=117;t=2, "chat-tokens";r=0;t=60')
})
