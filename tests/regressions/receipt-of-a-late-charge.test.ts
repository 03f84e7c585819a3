import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { answerTooLate } from '../support/money/late-charges.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: the idempotency key of a list whose first charge came too late named the receipt of that one, which was not billed, and not the receipt of
 * the charge that was made.
 * Cause: completing the key wrote the receipt of the list's first call over the one that the charges had left there.
 * Fix: the receipt that the first charge has written stays.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'

test('§5: a key names a receipt that was billed, where the first charge of its list came too late', async () => {
  const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
  const { sql } = gateway.database
  const owner = await gateway.customer({ policy: open, keyPolicy: open })
  const node = await fixture(startScriptedNode(model))
  await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
  await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
  const held: ScriptedCall[] = []
  node.answer((call) => void held.push(call))
  const { customerId, key } = await gateway.customer({ policy: open, keyPolicy: open })
  await gateway.admin('POST', `/v1/admin/customers/${customerId}/credits`, { amount_wei: '100000000' })
  const headers = { 'idempotency-key': 'late' }
  const list = { model, max_tokens: 20, prompt: ['a', 'b'] }
  const asked = postJson(`${gateway.url}/v1/completions`, key, list, { headers })
  await waitUntil('both run', () => held.length === 2)
  const [first] = await sql<{ id: string; wei: string }[]>`
    select r.reservation_id as id, r.amount_wei::text as wei from reservations r
    join idempotency_keys k on k.request_id = r.reservation_id where r.customer_id = ${customerId}`
  await answerTooLate(gateway.database, customerId, first === undefined ? [] : [first], held)
  expect((await asked).status).toBe(200)
  const named = async () => [
    ...(await sql`select k.status, r.billed from idempotency_keys k join receipts r on r.receipt_hash = k.receipt_hash
      where k.customer_id = ${customerId}`),
  ]
  await waitUntil('the key is complete', async () => (await named())[0]?.status === 'completed')
  expect(await named()).toEqual([{ status: 'completed', billed: true }])
})
