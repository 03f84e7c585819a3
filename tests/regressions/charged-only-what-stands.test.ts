import { afterAll, afterEach, expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** §27: an answer is built and serialised, then charged, then sent: one that fails before is charged nothing. */
const open = { min_privacy_class: 'public' as const }
/** An object with this text cannot be written as JSON: what a machine without memory or stack left would do to any. */
const poison = 'cannot be written'

afterAll(() => Reflect.deleteProperty(Object.prototype, 'toJSON'))
const gateway = await fixture(startTestGateway())
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const nodes = await fixture([startScriptedNode('whole'), startScriptedNode('streamed', 'llama.cpp')])
for (const [at, node] of nodes.entries()) {
  const placed = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
  await gateway.node(node.url, placed)
  await gateway.admin('PUT', '/v1/admin/models', {
    id: ['whole', 'streamed'][at],
    prompt_token_price_wei: '10',
    completion_token_price_wei: '1000',
  })
}
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '10000000' })
Object.defineProperty(Object.prototype, 'toJSON', {
  configurable: true,
  value(this: { readonly content?: unknown }) {
    if (this.content === poison) throw new RangeError(poison)
    return this
  },
})

afterEach(() => expectBooksBalance(gateway.database.db))

const account = async () => {
  const seen = await gateway.admin<Record<string, string>>('GET', `/v1/admin/customers/${payer.customerId}`)
  return { balance: BigInt(seen.balance_wei ?? 0), reserved: BigInt(seen.reserved_wei ?? 0) }
}
const rows = async () => {
  const [row] = await gateway.database.sql`select (select count(*)::int from receipts) as receipts,
    (select count(*)::int from payouts) as payouts,
    (select count(*)::int from ledger_entries where kind = 'debit') as debits`
  return row
}
const ask = (model: string, stream: boolean) =>
  gateway.chat(payer.key, { model, stream, max_tokens: 20, messages: [{ role: 'user', content: 'hi' }] })
const usage = '"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}'
const whole = (text: string) => (call: ScriptedCall) =>
  call.respond(
    200,
    `{"choices":[{"index":0,"message":{"role":"assistant","content":"${text}"},"finish_reason":"stop"}],${usage}}`,
  )
const streamed = (text: string) => async (call: ScriptedCall) => {
  const chunk = (content: string, finish: string) =>
    call.raw(`data: {"choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":${finish}}]}\n\n`)
  call.open()
  // Of a stream only the chunk at its end is poisoned; of an answer that is put together the whole text is.
  if (call.body.model === 'whole') await chunk('Hi', 'null')
  await chunk(text, '"stop"')
  await call.raw(`data: {"choices":[],${usage}}\n\ndata: [DONE]\n\n`)
  call.end()
}

test.each([
  ['a whole answer', 'whole', false, whole],
  ['a whole answer that was asked for as a stream', 'streamed', false, streamed],
  ['the terminal chunk of a stream', 'whole', true, streamed],
] as const)('%s that cannot be written costs nothing', async (_name, model, stream, script) => {
  for (const node of nodes) node.answer(script(poison))
  const [before, written] = [await account(), await rows()]
  const response = await ask(model, stream)
  const text = await response.text()
  expect(response.status).toBe(stream ? 200 : 500)
  expect(text).toContain('"code":"internal_error"')
  expect(text).not.toContain('[DONE]')
  await waitUntil('released', async () => (await account()).reserved === 0n)
  expect((await account()).balance).toBe(before.balance)
  expect(await rows()).toEqual(written)
  // Its slot is free, and the next answer is charged as ever.
  for (const node of nodes) node.answer(script('well'))
  const next = await ask(model, stream)
  expect([next.status, await next.text()]).toEqual([200, expect.stringContaining('well')])
  expect((await account()).balance).toBe(before.balance - 5n * 10n - 2n * 1_000n)
  const shown = await gateway.admin<{ nodes: { in_flight: number }[] }>('GET', '/v1/admin/nodes')
  expect(shown.nodes.map(({ in_flight }) => in_flight)).toEqual([0, 0])
})
