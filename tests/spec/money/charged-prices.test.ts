import { expect, test } from 'bun:test'
import { startPaidGateway } from '../../support/money/paid-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const paid = await fixture(startPaidGateway({ promptPrice: 7n, outputPrice: 11n, creditWei: 10n ** 9n }))

const inForce = 'every price is the one of the catalogue when the work was quoted'

async function faults(): Promise<readonly string[]> {
  const path = '/v1/admin/ledger/check'
  const check = await paid.gateway.admin<{ faults: { rule: string; subject: string }[] }>('GET', path)
  return check.faults.map(({ rule, subject }) => `${rule}: ${subject}`)
}
async function chat(): Promise<string> {
  const answer = (await (await paid.ask()).json()) as { svc: { receipt_hash: string } }
  return answer.svc.receipt_hash
}
const priceOf = (hash: string) =>
  waitFor('the price', async () => {
    const [row] = await paid.gateway.database.sql`select price from receipt_rows where receipt_hash = ${hash}`
    return row?.price as string | undefined
  })

test('§36: a receipt keeps the price of its quote, and the books compare it with the catalogue of that time', async () => {
  const before = await chat()
  expect(await priceOf(before)).toMatch(/^7:11\.[0-9a-f]{8}\.[A-Za-z0-9_-]{22}$/)
  await paid.gateway.admin('PUT', '/v1/admin/models', {
    id: 'paid',
    prompt_token_price_wei: '70',
    completion_token_price_wei: '110',
  })
  const after = await waitFor('the new price', async () => {
    const hash = await chat()
    return (await priceOf(hash)).startsWith('70:110.') ? hash : undefined
  })
  expect(await faults()).toEqual([])

  // Both were in force within a minute of the change, and only one of them an hour before it, or after it.
  const { database } = paid.gateway
  const moved = (hash: string, by: string) =>
    database.sql.unsafe(
      `update reservations set created_at = created_at + interval '${by}' where receipt_hash = '${hash}'`,
    )
  await moved(before, '1 hour')
  expect(await faults()).toEqual([`${inForce}: ${before}`])
  await moved(before, '-1 hour')
  await database.sql`update admin_approval_events set created_at = created_at - interval '2 hours' where target_type = 'model'`
  expect(await faults()).toContain(`${inForce}: ${before}`)
  await database.sql`update admin_approval_events set metadata = metadata - 'prices' - 'state' where target_type = 'model'`
  // A gateway of a version before made the changes, and did not say what they were.
  expect(await faults()).toEqual([])
  expect(after).not.toBe(before)
})
