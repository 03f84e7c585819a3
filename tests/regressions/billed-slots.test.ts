import { expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * A billed request took its slot only when its money was set aside, which takes the database's time. Whoever looked
 * meanwhile saw the slot free: one slot that came free sent the whole line to a node with one slot.
 */

const open = { min_privacy_class: 'public' as const }
const many = 16
let most = 0

const gateway = await fixture(startTestGateway({ env: { SVC_QUEUE_WAIT_MS: '20000' } }))
const owner = await gateway.customer()
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const poor = await gateway.customer({ policy: open, keyPolicy: open })
const node = await fixture(
  startFakeNode({
    models: ['m'],
    speaks: 'llama.cpp',
    slots: 1,
    answer: { chunks: 2, firstTokenMs: 5, intervalMs: 5 },
  }),
)
node.onRequest(() => {
  most = Math.max(most, node.stats().openRequests)
})
await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
const wei = { prompt_token_price_wei: '10', completion_token_price_wei: '10' }
await gateway.admin('PUT', '/v1/admin/models', { id: 'm', ...wei })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '10000000' })

const ask = async (stream: boolean, { key } = payer) => {
  const body = { model: 'm', messages: [{ role: 'user', content: 'x' }], max_tokens: 20, stream }
  const response = await gateway.chat(key, body)
  const text = await response.text()
  // A request that has waited long for its stream already has the head of its answer.
  return text.includes('"insufficient_funds"') ? 402 : response.status
}
const money = async () => {
  const { reserved_wei: reserved } = await gateway.admin<Record<string, string>>(
    'GET',
    `/v1/admin/customers/${payer.customerId}`,
  )
  const counted = await gateway.database.sql<
    { kind: string; count: string }[]
  >`select kind, count(*) from ledger_entries
    where customer_id = ${payer.customerId} and kind in ('reserve', 'debit') group by kind order by kind`
  return { reserved, counted: counted.map(({ kind, count }) => [kind, Number(count)]) }
}

test('§30: one slot serves one billed request at a time, whoever waits for it; each is charged once', async () => {
  for (const stream of [false, true]) {
    const statuses = await Promise.all(Array.from({ length: many }, () => ask(stream)))
    expect(statuses).toEqual(Array.from({ length: many }, () => 200))
    expect([stream, most]).toEqual([stream, 1])
  }
  await waitUntil('nothing is reserved', async () => (await money()).reserved === '0')
  expect((await money()).counted).toEqual([
    ['debit', 2 * many],
    ['reserve', 2 * many],
  ])
  await expectBooksBalance(gateway.database.db)
})

test('§13: a request that cannot be paid gives its slot back to whoever waits, and was no call', async () => {
  const before = node.stats().requests
  const [poorly, well] = await Promise.all([
    Promise.all(Array.from({ length: many }, (_, at) => ask(at % 2 === 0, poor))),
    Promise.all(Array.from({ length: many }, () => ask(false))),
  ])
  expect(new Set(poorly)).toEqual(new Set([402]))
  expect(new Set(well)).toEqual(new Set([200]))
  expect([node.stats().requests - before, most]).toEqual([many, 1])
})
