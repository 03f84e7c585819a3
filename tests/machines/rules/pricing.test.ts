import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { chargeOf, clampUsage, priceOf, splitCharge } from '../../../src/machines/rules/pricing.ts'

const wei = fc.bigInt({ min: 0n, max: 2n ** 255n })
const tokens = fc.integer({ min: 0, max: 10_000_000 })

test('§13: a quote is base + prompt × price + max_tokens × price, exact beyond any double', () => {
  const prices = { baseWei: 1n, promptTokenWei: 10n ** 30n + 1n, completionTokenWei: 3n }
  expect(priceOf(prices, 1_000_003, 5)).toBe(1n + 1_000_003n * (10n ** 30n + 1n) + 15n)
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
  expect(() => splitCharge(1n, 10_001)).toThrow(RangeError)
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

test('§5: reported usage is clamped to 1.5 × the estimate + 64 and to max_tokens', () => {
  const estimate = { promptTokens: 100, completionTokens: 10 }
  const honest = { promptTokens: 214, completionTokens: 79 }
  expect(clampUsage(honest, estimate, null)).toEqual({ usage: honest, breached: false })
  expect(clampUsage({ promptTokens: 215, completionTokens: 79 }, estimate, null)).toEqual({
    usage: honest,
    breached: true,
  })
  expect(clampUsage({ promptTokens: 1, completionTokens: 80 }, estimate, 50)).toEqual({
    usage: { promptTokens: 1, completionTokens: 50 },
    breached: true,
  })
  fc.assert(
    fc.property(tokens, tokens, tokens, tokens, fc.option(tokens), (a, b, c, d, max) => {
      const reported = { promptTokens: a, completionTokens: b }
      const { usage, breached } = clampUsage(reported, { promptTokens: c, completionTokens: d }, max)
      expect(usage.promptTokens <= a && usage.completionTokens <= b).toBe(true)
      expect(max === null || usage.completionTokens <= max).toBe(true)
      expect(breached).toBe(usage.promptTokens !== a || usage.completionTokens !== b)
    }),
  )
})
