import { beforeEach, expect, test } from 'bun:test'
import { startTestGateway, type TestCustomer } from '../support/gateways/gateway.ts'
import { expectBooksBalance } from '../support/money/ledger.ts'
import {
  nodeChunk,
  nodeUsage,
  type ScriptedCall,
  type ScriptedNode,
  startScriptedNode,
} from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: the share of work that was done for a node's former owner went to the address of the new one.
 * Cause: the database looked for the node's payout address at the commit of the charge, and the node may have got another owner between the end of the
 * work and that.
 * Fix: a charge names the owner for whom the node worked, and the node keeps the addresses of its former owners.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'
const [formerAddress, nextAddress] = [`0x${'a1'.repeat(20)}`, `0x${'b2'.repeat(20)}`]
/** As many at once as a lease needs, and some more. */
const busy = 12

const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const { sql } = gateway.database
const customer = () => gateway.customer({ policy: open, keyPolicy: open })
const [former, next] = [await customer(), await customer()]
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })

let payer: TestCustomer
let node: ScriptedNode
let nodeId: string
let held: ScriptedCall[] = []

beforeEach(async () => {
  held = []
  node = startScriptedNode(model)
  node.answer((call) => void held.push(call))
  payer = await customer()
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000000' })
  nodeId = await gateway.node(node.url, {
    customerId: former.customerId,
    visibility: 'public',
    privacyClass: 'public',
  })
  await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { payout_address: formerAddress })
})

const ask = (more: object = {}, at = gateway) =>
  at.chat(payer.key, { model, max_tokens: 20, messages: [{ role: 'user', content: 'hi' }], ...more })
const answer = (call: ScriptedCall) =>
  call.respond(200, {
    choices: [{ index: 0, message: { role: 'assistant', content: 'four words are here' }, finish_reason: 'stop' }],
    usage: nodeUsage,
  })
const path = () => `/v1/admin/nodes/${nodeId}`
const drain = () => gateway.admin('POST', `${path()}/drain`)
async function sell(): Promise<void> {
  await gateway.admin('POST', `${path()}/owner`, { customer_id: next.customerId, reason: 'it was sold' })
  await gateway.admin('PATCH', path(), { payout_address: nextAddress })
}
const payees = async () =>
  (await sql`select earned_payee as payee from payouts where node_id = ${nodeId} order by created_at`).map(
    ({ payee }) => payee,
  )

test.each([
  ['one charge', 1, 0],
  ['a group of charges', busy, 0],
  ['charges under a lease', busy, busy],
])(
  '§31: the shares of %s that wait while the node changes its owner are the former owner’s',
  async (_, rows, leased) => {
    const asked = Array.from({ length: rows }, () => ask())
    await waitUntil('all run', () => held.length === rows)
    if (leased > 0) {
      await waitUntil('a lease', async () => {
        const leases = await sql`select 1 from money_leases where customer_id = ${payer.customerId}`
        return leases.length === 1
      })
      asked.push(...Array.from({ length: leased }, () => ask()))
      await waitUntil('all run', () => held.length === rows + leased)
    }
    await sql.begin(async (tx) => {
      await tx`select 1 from customers where customer_id = ${payer.customerId} for update`
      for (const call of held.splice(0)) answer(call)
      await waitUntil('the charges wait', async () => (await lockWaits(sql, '%charge%')) > 0)
      await drain()
      await waitUntil('nothing runs there', async () => {
        const seen = await gateway.admin<{ in_flight: number }>('GET', path())
        return seen.in_flight === 0
      })
      await sell()
    })
    for (const response of await Promise.all(asked))
      expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
    expect(await payees()).toEqual(Array.from({ length: rows + leased }, () => formerAddress))
    const [{ grouped } = { grouped: 0 }] = await sql`select count(*)::int as grouped from charge_groups
    where reserve_seq is not null and customer_id = ${payer.customerId}`
    expect(grouped > 0).toBe(leased > 0)
    // And what it does from then on is the new owner's.
    node.answer(answer)
    await gateway.admin('PATCH', path(), { visibility: 'public' })
    await gateway.admin('POST', `${path()}/resume`)
    await waitUntil('the node serves', async () => {
      const response = await ask()
      await response.text()
      return response.status === 200
    })
    expect(new Set((await payees()).slice(rows + leased))).toEqual(new Set([nextAddress]))
    await gateway.admin('DELETE', path())
    node.stop()
  },
)

test('§31: and so is that of a stream that another gateway still had there', async () => {
  const beside = await startTestGateway({ beside: gateway })
  try {
    await waitUntil('the other gateway serves it', async () => {
      const { models } = await beside.admin<{ models: { id: string }[] }>('GET', '/v1/admin/models')
      return models.some(({ id }) => id === model)
    })
    const asked = ask({ stream: true }, beside)
    await waitUntil('it runs', () => held.length === 1)
    const [call] = held.splice(0) as [ScriptedCall]
    call.open()
    await call.event(nodeChunk({ role: 'assistant', content: 'four words are here' }))
    const stream = (await asked).text().catch(() => '')
    await drain()
    await sell()
    expect(await stream).not.toContain('[DONE]')
    await waitUntil('what passed is charged', async () => (await payees()).length === 1)
    expect(await payees()).toEqual([formerAddress])
  } finally {
    await gateway.admin('DELETE', path())
    node.stop()
    await beside.stop()
  }
})
