import { afterEach, expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { createLog } from '../../src/log.ts'
import { promptTokens } from '../../src/protocol/chat/token-estimate.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/** §32: what a request's record and the costs of a key show is what the ledger debited, never the price before its cap. */
const open = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'hello there' }]
const estimate = promptTokens({ messages })
const outputMax = 20
const quote = BigInt(estimate) * 10n + BigInt(outputMax) * 1_000n

const gateway = await fixture(startTestGateway())
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(startScriptedNode('paid'))
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
const prices = { id: 'paid', prompt_token_price_wei: '10', completion_token_price_wei: '1000' }
await gateway.admin('PUT', '/v1/admin/models', prices)
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '10000000' })

afterEach(() => expectBooksBalance(gateway.database.db))

const balance = async () => {
  const path = `/v1/admin/customers/${payer.customerId}`
  return BigInt((await gateway.admin<{ balance_wei: string }>('GET', path)).balance_wei)
}
const lastCost = async () => {
  const headers = { 'x-svc-customer-id': payer.customerId, 'x-svc-customer-token': payer.customerToken }
  const listed = await fetch(`${gateway.url}/v1/billing/requests?limit=1`, { headers })
  return ((await listed.json()) as { requests: { cost_wei: string | null }[] }).requests[0]?.cost_wei
}
const ask = (stream: boolean) => gateway.chat(payer.key, { model: 'paid', messages, max_tokens: outputMax, stream })
/** More prompt than was set aside, less than would be impossible. */
const usage = { prompt_tokens: estimate + 60, completion_tokens: outputMax, total_tokens: estimate + 60 + outputMax }
const whole = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi there! '.repeat(9) }, finish_reason: 'stop' }],
  usage,
}

test.each([false, true])('more usage than was set aside costs what was set aside (stream: %p)', async (stream) => {
  const before = await balance()
  const asking = ask(stream)
  const call = await node.next()
  if (!stream) call.respond(200, whole)
  else {
    call.open()
    await call.event({ choices: [{ index: 0, delta: { content: 'Hi there! '.repeat(9) }, finish_reason: 'stop' }] })
    await call.raw(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`)
    call.end()
  }
  expect(await (await asking).text()).toContain(`"prompt_tokens":${usage.prompt_tokens}`)
  expect(before - (await balance())).toBe(quote)
  expect(await lastCost()).toBe(quote.toString())
})

test('a charge that came after its reservation was released shows no price', async () => {
  const before = await balance()
  const asking = ask(false)
  const call = await node.next()
  // Another gateway takes this one for dead.
  await gateway.database.sql`update reservations set expires_at = now() - interval '1 hour' where status = 'open'`
  const other = new Ledger({ macs: testMacs, ...gateway.database, log: createLog('silent', () => {}) })
  expect(await other.sweep()).toBe(1)
  call.respond(200, whole)
  expect((await asking).status).toBe(200)
  expect(await balance()).toBe(before)
  expect(await lastCost()).toBe('0')
})
