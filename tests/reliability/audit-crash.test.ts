import { expect, test } from 'bun:test'
import { crashUnderLoad } from '../support/gateways/audit-crash.ts'

test('§16: kill -9 under load: no change was answered without its event, and the chains hold', async () => {
  const { answered } = await crashUnderLoad(2, 600)
  expect(answered).toBeGreaterThan(20)
})
