import { expect, test } from 'bun:test'
import { readsWhilePaying } from '../support/money/reads-while-paying.ts'

test('§13: 1,000 reads of an account while 200 requests pay on two gateways: each is of one moment within it', async () => {
  const seen = await readsWhilePaying({ clients: 200, reads: 1_000 })
  console.table(seen)
  expect(seen.recalls).toBeGreaterThan(0)
}, 1_200_000)
