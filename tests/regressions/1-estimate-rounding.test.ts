import { expect, test } from 'bun:test'
import { promptTokens } from '../../src/protocol/chat/token-estimate.ts'

/**
 * Symptom: a prompt of 40, 50 or 60 ASCII characters was estimated one token too high.
 * Cause: the weights of §7 were summed as 0.3, and forty times 0.3 is a little more than 12, which was then rounded up.
 * Fix: tenths are summed as whole numbers, and rounding up forgives what floating point adds.
 */
test('§7: forty characters are twelve tokens, not thirteen', () => {
  const tokens = [40, 50, 60].map((length) => promptTokens({ messages: [{ content: 'a'.repeat(length) }] }))
  expect(tokens).toEqual([19, 22, 25])
})
