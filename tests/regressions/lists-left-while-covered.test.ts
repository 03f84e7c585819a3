import { expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
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

const held: ScriptedCall[] = []
const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode(model))
node.answer((call) => void held.push(call))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: creditWei })

const ask = (prompt: string | readonly string[], signal: AbortSignal | null = null) =>
  postJson(`${gateway.url}/v1/completions`, payer.key, { model, max_tokens: 20, prompt }, { signal })

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
    await waitUntil('the account is being read', async () => (await lockWaits(sql)) > 0)
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
