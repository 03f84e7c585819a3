import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a streamed list of prompts whose first call failed while another one was charged could be billed twice for one idempotency key.
 * Cause: the money of a call that ended without a charge went back with it, and that of the first call is what keeps the key in use.
 * Fix: it goes back at the end of all, in the commit that completes the key.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'

const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
const held: ScriptedCall[] = []
node.answer((call) => void held.push(call))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })

test('§5: the key of a list is in use until the commit that says that the list was billed, though its first call has failed', async () => {
  const { sql } = gateway.database
  const body = { model, max_tokens: 20, prompt: ['a', 'b'], stream: true }
  const asked = postJson(`${gateway.url}/v1/completions`, payer.key, body, { headers: { 'idempotency-key': 'list' } })
  await waitUntil('both calls', () => held.length === 2)
  const [failing, other] = held.toSorted((a, b) => String(a.body.prompt).localeCompare(String(b.body.prompt)))
  other?.open()
  await other?.event({ choices: [{ index: 0, text: 'some words' }] })
  const response = await asked
  failing?.respond(500, { error: { message: 'broken' } })
  expect(await response.text()).toContain('error')
  await waitUntil('the key is complete', async () => {
    const keys = await sql`select status from idempotency_keys where customer_id = ${payer.customerId}`
    return keys[0]?.status === 'completed'
  })
  // `xmin`: the transaction that wrote the row.
  const [key] = await sql`select r.status, r.xmin = k.xmin as at_once from reservations r
    join idempotency_keys k on k.request_id = r.reservation_id`
  expect(key).toEqual({ status: 'released', at_once: true })
  const debits = await sql`select 1 from ledger_entries where kind = 'debit' and customer_id = ${payer.customerId}`
  expect(debits).toHaveLength(1)
  const left = await sql`select 1 from reservations where customer_id = ${payer.customerId} and status = 'open'`
  expect(left).toHaveLength(0)
})
