import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { nodeChunk, nodeUsage, type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a request whose first node had a price, and whose answer came from one that had none, was charged.
 * Cause: the money that was set aside for the first node was charged for whichever node answered.
 * Fix: a call to a route that costs nothing uses none of it, and it goes back.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'

const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const { customerId: ownerId } = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const atPrice = (wei: string | null) =>
  gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: wei })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })

async function answer(call: ScriptedCall): Promise<void> {
  const message = { role: 'assistant', content: 'four words are here' }
  if (call.body.stream !== true)
    return call.respond(200, { choices: [{ index: 0, message, finish_reason: 'stop' }], usage: nodeUsage })
  call.open()
  await call.event(nodeChunk({ role: 'assistant', content: message.content }))
  await call.event(nodeChunk({}, 'stop', { usage: nodeUsage }))
  await call.event('[DONE]')
  call.end()
}

test.each([
  ['a whole answer', false],
  ['a stream', true],
])('§6: %s of a node without a price costs nothing, though one with a price was tried', async (_, stream) => {
  await using paid = await scoped(startScriptedNode(model))
  await using free = await scoped(startScriptedNode(model))
  const offered = { customerId: ownerId, visibility: 'public', privacyClass: 'public' } as const
  await atPrice('1000')
  const paidId = await gateway.node(paid.url, offered)
  const asked = gateway.chat(payer.key, { model, stream, max_tokens: 20, messages: [{ role: 'user', content: 'hi' }] })
  const call = await paid.next()
  const freeId = await gateway.node(free.url, offered)
  free.answer(answer)
  await atPrice(null)
  call.respond(500, {})
  const response = await asked
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  expect(free.calls).toBe(1)
  const { sql } = gateway.database
  expect(await sql`select 1 from ledger_entries where kind = 'debit'`).toHaveLength(0)
  await waitUntil('all of it went back', async () => {
    const path = `/v1/admin/customers/${payer.customerId}`
    const account = await gateway.admin<{ balance_wei: string; reserved_wei: string }>('GET', path)
    return account.balance_wei === '100000000' && account.reserved_wei === '0'
  })
  for (const id of [paidId, freeId]) await gateway.admin('DELETE', `/v1/admin/nodes/${id}`)
})
