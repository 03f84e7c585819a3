import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  chargeOf,
  clampUsage,
  LastClaims,
  needsReview,
  priceOf,
  splitCharge,
} from '../../../src/machines/rules/pricing.ts'

const wei = fc.bigInt({ min: 0n, max: 2n ** 255n })
const tokens = fc.integer({ min: 0, max: 10_000_000 })

test('§13: a quote is base + prompt × price + max_tokens × price, exact beyond any double', () => {
  const prices = { baseWei: 1n, promptTokenWei: 10n ** 30n + 1n, completionTokenWei: 3n }
  expect(priceOf(prices, 1_000_003, 5)).toBe(1n + 1_000_003n * (10n ** 30n + 1n) + 15n)
  expect(priceOf(prices, 0, 0)).toBe(1n)
  expect(() => priceOf(prices, -1, 0)).toThrow(RangeError)
  expect(() => priceOf(prices, 0.5, 0)).toThrow(RangeError)
})

test('§9: the fee is rounded down, share and fee always add up', () => {
  expect(splitCharge(19n, 1_000)).toEqual({ feeWei: 1n, shareWei: 18n })
  expect(splitCharge(9n, 1_000)).toEqual({ feeWei: 0n, shareWei: 9n })
  fc.assert(
    fc.property(wei, fc.integer({ min: 0, max: 10_000 }), (amount, bps) => {
      const { feeWei, shareWei } = splitCharge(amount, bps)
      expect(feeWei + shareWei).toBe(amount)
      expect(feeWei * 10_000n <= amount * BigInt(bps)).toBe(true)
      expect((feeWei + 1n) * 10_000n > amount * BigInt(bps)).toBe(true)
      expect(shareWei >= 0n).toBe(true)
    }),
  )
  expect([splitCharge(5n, 0), splitCharge(5n, 10_000)]).toEqual([
    { feeWei: 0n, shareWei: 5n },
    { feeWei: 5n, shareWei: 0n },
  ])
  for (const bps of [-1, 10_001, 0.5, Number.NaN]) expect(() => splitCharge(1n, bps)).toThrow(RangeError)
})

test('§13: never more is charged than was reserved, and what costs less is charged as it is', () => {
  fc.assert(
    fc.property(wei, wei, (actual, reserved) => {
      const charged = chargeOf(actual, reserved)
      expect(charged === actual || charged === reserved).toBe(true)
      expect(charged <= actual && charged <= reserved).toBe(true)
    }),
  )
})

describe('§5: what is paid for of a claim', () => {
  const estimate = { promptTokens: 100, completionTokens: 30 }
  const claim = (promptTokens: number, completionTokens: number) => ({ promptTokens, completionTokens })

  test('the prompt up to 1.5 × the estimate + 64, the output up to its estimate and half of it, and to max_tokens', () => {
    const most = claim(214, 45)
    expect(clampUsage(most, estimate, null)).toEqual({ usage: most, breached: false, atBound: true })
    expect(clampUsage(claim(215, 45), estimate, null)).toMatchObject({ usage: most, breached: true })
    expect(clampUsage(claim(214, 46), estimate, null)).toMatchObject({ usage: most, breached: true })
    expect(clampUsage(claim(1, 45), estimate, 40)).toEqual({ usage: claim(1, 40), breached: true, atBound: true })
  })

  test('at least 8 beside the estimate', () => {
    const short = claim(1, 2)
    expect(clampUsage(claim(1, 10), short, null)).toMatchObject({ usage: claim(1, 10), breached: false })
    expect(clampUsage(claim(1, 11), short, null)).toMatchObject({ usage: claim(1, 10), breached: true })
  })

  test('nothing of an output that did not pass; more than 8 tokens of it are held', () => {
    const silent = claim(1, 0)
    expect(clampUsage(claim(1, 8), silent, null)).toMatchObject({ usage: claim(1, 0), breached: false })
    expect(clampUsage(claim(1, 9), silent, null)).toMatchObject({ usage: claim(1, 0), breached: true })
  })

  test('a claim near the bound of the output, or at that of the prompt, lies at the bound; max_tokens is no bound of it', () => {
    const isAtBound = (prompt: number, completion: number, max: number | null = null) =>
      clampUsage(claim(prompt, completion), estimate, max).atBound
    expect([isAtBound(213, 40), isAtBound(214, 40), isAtBound(90, 41)]).toEqual([false, true, true])
    expect(isAtBound(90, 20, 20)).toBe(false)
  })

  test('never more than was claimed, than was asked for, or than could be', () => {
    fc.assert(
      fc.property(tokens, tokens, tokens, tokens, fc.option(tokens), (a, b, c, d, max) => {
        const { usage, breached, atBound } = clampUsage(claim(a, b), claim(c, d), max)
        expect(usage.promptTokens <= a && usage.completionTokens <= b).toBe(true)
        expect(max === null || usage.completionTokens <= max).toBe(true)
        expect(usage.completionTokens <= Math.max(1.5 * d, d + 8)).toBe(true)
        expect(d > 0 || usage.completionTokens === 0).toBe(true)
        if (d > 0) expect(breached).toBe(usage.promptTokens !== a || usage.completionTokens !== b)
        if (breached && max === null) expect(atBound).toBe(true)
      }),
    )
  })
})

test('§5: of the last 100 claims those at the bound are counted, and more than 5 of them ask for a review', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 350, size: 'max' }), (claims) => {
      const window = new LastClaims()
      for (const atBound of claims) window.add(atBound)
      const last = claims.slice(-100)
      const atBound = last.filter((each) => each).length
      expect([window.calls, window.atBound]).toEqual([last.length, atBound])
      expect(needsReview(window)).toBe(atBound > 5)
    }),
  )
})

test('§5: the claim before the last 100 is forgotten, and not before', () => {
  const window = new LastClaims()
  for (let at = 0; at < 6; at++) window.add(true)
  const reviews: boolean[] = []
  for (let at = 0; at < 100; at++) {
    reviews.push(needsReview(window))
    window.add(false)
  }
  // The first of the six leaves with the 95th claim behind them.
  expect(reviews.lastIndexOf(true)).toBe(94)
  expect([window.calls, window.atBound, needsReview(window)]).toEqual([100, 0, false])
})
