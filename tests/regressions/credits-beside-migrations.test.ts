import { expect, test } from 'bun:test'
import { newAccount } from '../support/gateways/accounts.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { payFor } from '../support/money/money.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: an operator's credit, debit or rejection of a receipt could fail with 500 while a newer gateway migrated the tables.
 * Cause: it locked the customer and then the ledger, and a migration locks the ledger and then customers or receipts, as charges do. PostgreSQL ended one of the two.
 * Fix: each change of a balance locks the ledger first.
 */
const gateway = await fixture(startTestGateway())
const { db, sql } = gateway.database
const held = async (customerId: string) =>
  `/v1/admin/receipts/${await payFor(gateway.database, { customerId, nodeId: 'node_a', amountWei: 100n, held: true })}/reject`
const path = (customerId: string) => `/v1/admin/customers/${customerId}`

test.each([
  ['credit', 'customers', 1_050, (id: string) => `${path(id)}/credits`, { amount_wei: '50' }],
  ['admin debit', 'customers', 950, (id: string) => `${path(id)}/debits`, { amount_wei: '50' }],
  ['refund', 'receipt_rows', 1_000, held, {}],
])('§13: a migration and an operator’s %s never wait for each other in a circle', async (_, table, after, at, body) => {
  const { id } = await newAccount(gateway, '1000')
  const address = await at(id)
  const { told } = await sql.begin(async (migration) => {
    // Each side looks for a deadlock once, after this wait: were there one, it would not be the migration that is ended.
    await migration`set local deadlock_timeout = '60s'`
    await migration`lock table ledger_entries in access exclusive mode`
    const told = gateway.ask('POST', address, { as: 'admin', json: { ...body, reason: 'as agreed' } })
    await waitUntil('the operator waits for the migration', async () => (await lockWaits(sql)) > 0)
    await migration`lock table ${sql(table)} in access exclusive mode`
    return { told }
  })
  const response = await told
  expect([response.status < 300, (await json(response)).code]).toEqual([true, undefined])
  const [row] =
    await sql`select balance_wei::int as balance, reserved_wei::int as reserved from customers where customer_id = ${id}`
  expect(row).toEqual({ balance: after, reserved: 0 })
  await expectBooksBalance(db)
})
