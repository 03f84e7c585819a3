import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: embeddings of a model whose output alone has a price were answered with 500 `internal_error`.
 * Cause: their quote is 0, and the ledger has no reservation of 0.
 * Fix: a call that can cost nothing is free.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'text-embed'
let gateway: TestGateway
let payer: TestCustomer
let node: ScriptedNode
beforeAll(async () => {
  gateway = await startTestGateway()
  const owner = await gateway.customer({ policy: open, keyPolicy: open })
  payer = await gateway.customer({ policy: open, keyPolicy: open })
  node = startScriptedNode(model)
  const data = [{ object: 'embedding', index: 0, embedding: [1, 2] }]
  const usage = { prompt_tokens: 7, total_tokens: 7 }
  node.answer((call) => call.respond(200, { object: 'list', model, data, usage }))
  await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
  await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
})
afterAll(async () => {
  await expectBooksBalance(gateway.database.db)
  await gateway.stop()
  node.stop()
})

test('§13: embeddings of a model whose output alone has a price cost nothing, also for an account without money', async () => {
  for (const key of [null, 'free', 'free']) {
    const response = await fetch(`${gateway.url}/v1/embeddings`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${payer.key}`,
        'content-type': 'application/json',
        ...(key === null ? {} : { 'idempotency-key': key }),
      },
      body: JSON.stringify({ model, input: 'hi' }),
    })
    expect(response.status).toBe(200)
  }
  const { sql } = gateway.database
  await waitUntil('the receipts', async () => (await sql`select 1 from receipts where not billed`).length === 3)
  expect(await sql`select 1 from ledger_entries`).toHaveLength(0)
})
