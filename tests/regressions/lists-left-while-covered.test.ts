import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: of a list of prompts whose client had left early, what was set aside stayed reserved until the gateway was started anew.
 * Cause: under a lease money is reserved at once, and only a reservation that was waited for looked whether the request was over by then.
 * Fix: a call that has ended reserves nothing.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'
/** As many at once as a lease needs, and some more. */
const busy = 12
const creditWei = '100000000'

let gateway: TestGateway
let payer: TestCustomer
let node: ScriptedNode
const held: ScriptedCall[] = []
beforeAll(async () => {
  gateway = await startTestGateway()
  const owner = await gateway.customer({ policy: open, keyPolicy: open })
  payer = await gateway.customer({ policy: open, keyPolicy: open })
  node = startScriptedNode(model)
  node.answer((call) => void held.push(call))
  await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
  await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: creditWei })
})
afterAll(async () => {
  await expectBooksBalance(gateway.database.db)
  await gateway.stop()
  node.stop()
})

const ask = (prompt: string | readonly string[], signal: AbortSignal | null = null) =>
  fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${payer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: 20, prompt }),
    signal,
  })

test('§13: a list whose client leaves while its money is looked for reserves nothing', async () => {
  const { sql } = gateway.database
  const others = Array.from({ length: busy }, () => ask('other'))
  await waitUntil('a lease', async () => {
    const rows = await sql`select 1 from money_leases where customer_id = ${payer.customerId}`
    return rows.length === 1 && held.length === busy
  })
  const client = new AbortController()
  await sql.begin(async (tx) => {
    await tx`lock table customers in access exclusive mode`
    const left = ask(['a', 'b'], client.signal).catch(() => null)
    await waitUntil('the account is being read', async () => {
      const waiting = await sql`select 1 from pg_locks where not granted and relation = 'customers'::regclass`
      return waiting.length > 0
    })
    client.abort()
    await left
    await waitUntil('the request has ended', async () => {
      const path = `/v1/admin/requests?customer_id=${payer.customerId}`
      const { requests } = await gateway.admin<{ requests: readonly { status: number }[] }>('GET', path)
      return requests.some(({ status }) => status === 499)
    })
  })
  for (const call of held.splice(0))
    call.respond(200, {
      choices: [{ index: 0, text: 'word', finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    })
  await Promise.all(others.map(async (other) => (await other).text()))
  await waitUntil('the lease has ended', async () => {
    const leases = await sql`select 1 from money_leases where customer_id = ${payer.customerId}`
    return leases.length === 0
  })
  const account = await gateway.admin('GET', `/v1/admin/customers/${payer.customerId}`)
  expect(account).toMatchObject({ balance_wei: String(BigInt(creditWei) - BigInt(busy) * 1_000n), reserved_wei: '0' })
})
