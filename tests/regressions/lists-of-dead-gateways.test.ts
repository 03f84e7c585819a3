import { afterEach, beforeEach, expect, test } from 'bun:test'
import { released, settleRow } from '../../src/actors/money/reservation.ts'
import { prepared } from '../../src/db/prepared.ts'
import { settleAll } from '../../src/db/queries/money/ledger.ts'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway, type TestCustomer } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a list of prompts was billed again for the same idempotency key, when its gateway had died after it had charged some of the calls.
 * Cause: a key counts as left behind once the reservation by which it is in use was released as stale, whatever other calls of the list had cost.
 * Fix: the commit of a call's charge writes its receipt into the row of the list's key, and a key with a receipt is not free.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'
const list = ['guard', 'charged', 'charged too']

let payer: TestCustomer
let held: ScriptedCall[] = []
const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
const { sql } = gateway.database

beforeEach(async () => {
  held = []
  node.answer((call) => void held.push(call))
  payer = await gateway.customer({ policy: open, keyPolicy: open })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
})
afterEach(() => Promise.all(held.splice(0).map(answer)))

async function answer(call: ScriptedCall): Promise<void> {
  const usage = { prompt_tokens: 1, completion_tokens: 4, total_tokens: 5 }
  const choices = [{ index: 0, text: 'some words were here', finish_reason: 'stop' }]
  if (call.body.stream !== true) return call.respond(200, { choices, usage })
  call.open()
  await call.event({ choices, usage })
  await call.event('[DONE]')
  call.end()
}
const ask = (stream: boolean) =>
  postJson(
    `${gateway.url}/v1/completions`,
    payer.key,
    { model, max_tokens: 20, prompt: list, stream },
    { headers: { 'idempotency-key': 'once' } },
  )
const receiptsOf = async (customerId: string) =>
  (
    await sql`select receipt_hash as hash from ledger_entries where kind = 'debit' and customer_id = ${customerId} order by seq`
  ).map(({ hash }) => String(hash))
/** What a gateway that died so long ago leaves behind: its reservations were released as stale, and their charges come too late. */
async function diedAgo(time: string): Promise<void> {
  const { customerId } = payer
  const left =
    await sql`select reservation_id as id from reservations where customer_id = ${customerId} and status = 'open'`
  if (left.length > 0) {
    await settleAll(
      prepared(sql),
      left.map(({ id }) => settleRow({ id: String(id) }, released)),
    )
  }
  await sql`update idempotency_keys set created_at = now() - ${time}::interval where customer_id = ${customerId}`
}
const codeOf = async (response: Response) => {
  const text = await response.text()
  const { error } = (text.startsWith('{') ? JSON.parse(text) : {}) as {
    error?: { code: string; svc: { original?: Record<string, unknown> } }
  }
  return { status: response.status, code: error?.code, original: error?.svc.original }
}
const begun = async (charged: number) => {
  const first = ask(true)
  await waitUntil('the list runs', () => held.length === list.length)
  const guard = held.splice(
    held.findIndex(({ body }) => body.prompt === 'guard'),
    1,
  )
  for (const call of held.splice(0, charged)) await answer(call)
  await waitUntil('the calls are charged', async () => (await receiptsOf(payer.customerId)).length === charged)
  held.push(...guard)
  return { end: async () => (await first).text().catch(() => '') }
}

test('§5: the key of a list that was charged in part is not free, though its gateway has died', async () => {
  const { end } = await begun(2)
  await diedAgo('16 minutes')
  const { status, code, original } = await codeOf(await ask(true))
  expect([status, code]).toEqual([409, 'idempotency_in_progress'])
  expect(original).toBeUndefined()
  // No request runs so long: it is known of it that it was billed, and by which receipt.
  await diedAgo('1 hour')
  const late = await codeOf(await ask(true))
  const [first] = await receiptsOf(payer.customerId)
  expect([late.status, late.code]).toEqual([409, 'idempotency_completed'])
  expect(late.original).toMatchObject({ receipt_hash: first, status: null, usage: null, completed_at: null })
  await Promise.all(held.splice(0).map(answer))
  await end()
  expect(await receiptsOf(payer.customerId)).toHaveLength(2)
})

test('§5: and the key of one of which nothing was charged is', async () => {
  const { end } = await begun(0)
  await diedAgo('16 minutes')
  const before = held.splice(0)
  node.answer(answer)
  const again = await ask(true)
  expect([again.status, await again.text()]).toEqual([200, expect.stringContaining('[DONE]')])
  expect(await receiptsOf(payer.customerId)).toHaveLength(list.length)
  // The charges of the first come too late.
  await Promise.all(before.map(answer))
  await end()
  expect(await receiptsOf(payer.customerId)).toHaveLength(list.length)
})
