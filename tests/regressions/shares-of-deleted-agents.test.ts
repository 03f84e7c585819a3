import { expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { dialledAgent, newAccount } from '../support/gateways/accounts.ts'
import { json, startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { chargeFor, expectBooksBalance } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { tamper } from '../support/money/tampering.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: what was charged after an agent's node had been deleted was never paid, and `audit books` said for ever that it does not go where the
 * node had stated.
 * Cause: the database looked for the node's payout address at the commit of the charge, and the node's row was gone.
 * Fix: the address is kept. Shares of before are paid to the address that the node has stated last.
 */
const stated = `0x${'a1'.repeat(20)}`
const gateway = await fixture(startTestGateway(stillLog), ({ database }) => expectBooksBalance(database.db))
const { id: customerId } = await newAccount(gateway, '100000')
const { nodeId } = await fixture(dialledAgent(gateway, customerId, { payoutAddress: stated }))
const { sql } = gateway.database
const ledger = new Ledger({ ...gateway.database, macs: testMacs, log: createLog('silent', () => {}) })

async function late(): Promise<string> {
  const charge = chargeFor(customerId, 1_000n, { nodeId, ownerId: customerId })
  await ledger.settle(await ledger.reserve({ id: newId('req'), customerId, amountWei: 2_000n }), charge)
  await gateway.gateway.sequencer.catchUp()
  const [payout] = await sql`select entry_id as id from payouts where receipt_hash = ${charge.receipt.hash}`
  return payout?.id
}
const shares = async () =>
  (await sql`select earned_payee as earned, payee from payouts order by created_at`).map(({ earned, payee }) => [
    earned,
    payee,
  ])
const faults = async () => (await gateway.gateway.checkBooks()).faults.map(({ rule, subject }) => `${rule}: ${subject}`)

// What is under way in the minute of the statement may go elsewhere.
await tamper(gateway, ["update payee_statements set created_at = created_at - interval '5 minutes'"])
await gateway.ask('DELETE', `/v1/admin/nodes/${nodeId}`, { as: 'admin', headers: { 'x-svc-reason': 'it was lost' } })

test('§36: what is charged after its node was deleted goes where the node has stated', async () => {
  await late()
  expect(await shares()).toEqual([[stated, stated]])
  expect(await faults()).toEqual([])
})

test('§36: and so does what was charged while no address of it was kept, in the next batch', async () => {
  await tamper(gateway, ['delete from deleted_nodes'])
  const id = await late()
  expect((await shares()).at(-1)).toEqual([null, null])
  expect(await faults()).toEqual([`every payee is the one that its node stated: ${id}`])
  const { batch } = await json(await gateway.ask('POST', '/v1/admin/payout-batches', { as: 'admin', json: {} }))
  expect(batch).toMatchObject({ payout_count: 2, total_amount_wei: '1800' })
  expect((await shares()).at(-1)).toEqual([null, stated])
  await gateway.gateway.sequencer.catchUp()
  expect(await faults()).toEqual([])
})
