import { afterAll, expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: embeddings of a model whose output alone has a price, and lists with an empty prompt where the prompt alone has one, were answered
 * with 500 `internal_error`.
 * Cause: their quote is 0, and the ledger has no reservation of 0.
 * Fix: a call that can cost nothing is free.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'text-embed'

afterAll(async () => {
  await expectBooksBalance(gateway.database.db)
})
const gateway = await fixture(startTestGateway())
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
const data = [{ object: 'embedding', index: 0, embedding: [1, 2] }]
const usage = { prompt_tokens: 7, total_tokens: 7 }
node.answer((call) => call.respond(200, { object: 'list', model, data, usage }))
const writer = await fixture(startScriptedNode('writer'))
writer.answer((call) => call.respond(200, { choices: [{ index: 0, text: 'word', finish_reason: 'stop' }] }))
const later = await fixture(startScriptedNode('later'))
for (const { url } of [node, writer, later]) {
  await gateway.node(url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
}
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
for (const id of ['writer', 'later'])
  await gateway.admin('PUT', '/v1/admin/models', { id, prompt_token_price_wei: '1000' })

const ask = (path: string, body: object, key: string | null = null, by = payer) =>
  postJson(gateway.url + path, by.key, body, { headers: key === null ? {} : { 'idempotency-key': key } })

test('§13: embeddings of a model whose output alone has a price cost nothing, also for an account without money', async () => {
  for (const key of [null, 'free', 'free']) {
    const response = await ask('/v1/embeddings', { model, input: 'hi' }, key)
    expect(response.status).toBe(200)
  }
  const { sql } = gateway.database
  await waitUntil('the receipts', async () => (await sql`select 1 from receipts where not billed`).length === 3)
  expect(await sql`select 1 from ledger_entries`).toHaveLength(0)
})

test('§13: of a list of prompts those that can cost nothing are free, and the others are charged', async () => {
  const credit = { amount_wei: '1000' }
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, credit)
  const response = await ask('/v1/completions', { model: 'writer', prompt: ['', 'a', ''], max_tokens: 5 }, 'list')
  expect(response.status).toBe(200)
  const kinds = await gateway.database.sql<{ kind: string; wei: number }[]>`select kind, amount_wei::int as wei
    from ledger_entries where reservation_id is not null order by seq`
  expect(kinds.map(({ kind, wei }) => [kind, wei])).toEqual([
    ['reserve', 1_000],
    ['debit', 1_000],
  ])
})

test('§13: a call of a list that was free by the quote stays free when its model gets another price meanwhile', async () => {
  const careful = await gateway.customer({ policy: { ...open, max_concurrency: 1 }, keyPolicy: open })
  await gateway.admin('POST', `/v1/admin/customers/${careful.customerId}/credits`, { amount_wei: '1000' })
  const asked = ask('/v1/completions', { model: 'later', prompt: ['a', ''], max_tokens: 5 }, null, careful)
  const call = await later.next()
  const prices = { id: 'later', prompt_token_price_wei: '1000', completion_token_price_wei: '1000' }
  await gateway.admin('PUT', '/v1/admin/models', prices)
  const answer = (one: ScriptedCall) =>
    one.respond(200, { choices: [{ index: 0, text: 'word', finish_reason: 'stop' }] })
  later.answer(answer)
  answer(call)
  const response = await asked
  expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('word')])
  const debits = await gateway.database.sql`select amount_wei::int as wei from ledger_entries
    where kind = 'debit' and customer_id = ${careful.customerId}`
  expect(debits.map(({ wei }) => wei)).toEqual([1_000])
})
