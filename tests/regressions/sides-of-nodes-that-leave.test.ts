import { afterEach, beforeEach, expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { nodeUsage, type ScriptedCall, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a request whose own node was removed while it ran was answered by a node of others, and charged; and one that had begun on a free
 * node of others was charged when its model got a price before the second try.
 * Cause: whose the tried nodes were, and what they cost, was read of the table at the next try. A node that is gone is not in it.
 * Fix: the search keeps whose the node of its try was, and whether it was free, as they were then.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'm'

const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const { customerId: ownerId } = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
const atPrice = (wei: string | null) =>
  gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: wei })

let first: ScriptedNode
let second: ScriptedNode
let ids: string[]
beforeEach(async () => {
  ids = []
  first = startScriptedNode(model)
  second = startScriptedNode(model)
  second.answer(answer)
})
afterEach(async () => {
  first.stop()
  second.stop()
  for (const id of ids) await gateway.admin('DELETE', `/v1/admin/nodes/${id}`).catch(() => {})
})

async function add({ url }: ScriptedNode, customerId: string): Promise<string> {
  const shared = { visibility: 'public', privacyClass: 'public' } as const
  const id = await gateway.node(url, { customerId, ...(customerId === ownerId ? shared : {}) })
  ids.push(id)
  return id
}
const answer = (call: ScriptedCall) =>
  call.respond(200, {
    choices: [{ index: 0, message: { role: 'assistant', content: 'four words are here' }, finish_reason: 'stop' }],
    usage: nodeUsage,
  })
/** `between`: while the first node works, which then gives no answer. */
async function asked(between: (call: ScriptedCall) => Promise<unknown>): Promise<readonly unknown[]> {
  const asking = gateway.chat(payer.key, { model, max_tokens: 20, messages: [{ role: 'user', content: 'hi' }] })
  await between(await first.next())
  const response = await asking
  const { error } = (await response.json()) as { readonly error?: { readonly code: string } }
  return [response.status, error?.code ?? null]
}
async function expectNothingCharged(): Promise<void> {
  expect(await gateway.database.sql`select 1 from ledger_entries where kind = 'debit'`).toHaveLength(0)
  await waitUntil('nothing is reserved', async () => {
    const path = `/v1/admin/customers/${payer.customerId}`
    return (await gateway.admin<{ reserved_wei: string }>('GET', path)).reserved_wei === '0'
  })
}
const remove = async (id: string, call: ScriptedCall) => {
  await gateway.admin('DELETE', `/v1/admin/nodes/${id}`)
  await call.gone
}

test('§5: a request that was tried on an own node goes to none of others, though the own one is gone', async () => {
  await atPrice('1000')
  await add(second, ownerId)
  const own = await add(first, payer.customerId)
  expect(await asked((call) => remove(own, call))).toEqual([502, 'upstream_error'])
  expect(second.calls).toBe(0)
  await expectNothingCharged()
})

test('§5: and one that was tried on a node of others to no own one', async () => {
  await atPrice('1000')
  const paid = await add(first, ownerId)
  const seen = await asked(async (call) => {
    await add(second, payer.customerId)
    await remove(paid, call)
  })
  expect(seen).toEqual([502, 'upstream_error'])
  expect(second.calls).toBe(0)
  await expectNothingCharged()
})

test('§5: an own node that is gone is made good by another own one', async () => {
  await atPrice('1000')
  const own = await add(first, payer.customerId)
  const seen = await asked(async (call) => {
    await add(second, payer.customerId)
    await remove(own, call)
  })
  expect(seen).toEqual([200, null])
  expect(second.calls).toBe(1)
  await expectNothingCharged()
})

test('§5: a request that was tried on a free node of others is not charged on the next one, whose model has a price by then', async () => {
  await atPrice(null)
  await add(first, ownerId)
  const seen = await asked(async (call) => {
    await add(second, ownerId)
    await atPrice('1000')
    call.respond(500, {})
  })
  expect(seen).toEqual([502, 'upstream_error'])
  expect(second.calls).toBe(0)
  await expectNothingCharged()
})
