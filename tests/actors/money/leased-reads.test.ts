import { expect, test } from 'bun:test'
import { readsWhilePaying } from '../../support/money/reads-while-paying.ts'

test('§13: each read of an account while it pays on two gateways is what its requests had reserved at one moment within it', async () => {
  const { recalls, groups, paid } = await readsWhilePaying({ clients: 60, reads: 40 })
  // Else nothing was put to the test.
  expect(Math.min(recalls, groups, paid)).toBeGreaterThan(0)
})
