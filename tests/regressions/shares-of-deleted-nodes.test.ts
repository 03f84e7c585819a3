import { beforeEach, expect, test } from 'bun:test'
import { endStaleLeases } from '../../src/db/queries/money/leases.ts'
import { fromHex, verifyProof } from '../../src/protocol/receipts/merkle.ts'
import { startTestGateway, type TestCustomer } from '../support/gateways/gateway.ts'
import { severable } from '../support/gateways/severed-database.ts'
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
 * Symptom: the share of work that was charged after its node was deleted was never paid.
 * Cause: the database looked for the node's payout address at the commit of the charge, and the node's row was gone.
 * Fix: of a node that is deleted the database keeps whose it was and where its shares go.
 */
const open = { min_privacy_class: 'public' as const }
const model = 'paid'
const [address, nextAddress, addressAgain] = ['a1', 'b2', 'c3'].map((pair) => `0x${pair.repeat(20)}`) as [
  string,
  string,
  string,
]
const credit = 100_000_000
/** As many at once as a lease needs, in one of two processes too. */
const busy = 18

const gateway = await fixture(startTestGateway(), ({ database }) => expectBooksBalance(database.db))
const { sql } = gateway.database
const customer = () => gateway.customer({ policy: open, keyPolicy: open })
const [owner, next] = [await customer(), await customer()]
await gateway.admin('PUT', '/v1/admin/models', { id: model, completion_token_price_wei: '1000' })

let payer: TestCustomer
let node: ScriptedNode
let nodeId: string
let held: ScriptedCall[] = []

async function funded(): Promise<TestCustomer> {
  const made = await customer()
  await gateway.admin('POST', `/v1/admin/customers/${made.customerId}/credits`, { amount_wei: String(credit) })
  return made
}
const pathOf = (id: string) => `/v1/admin/nodes/${id}`
async function add(customerId: string, payee: string | null): Promise<string> {
  const id = await gateway.node(node.url, { customerId, visibility: 'public', privacyClass: 'public' })
  if (payee !== null) await gateway.admin('PATCH', pathOf(id), { payout_address: payee })
  return id
}
beforeEach(async () => {
  held = []
  node = startScriptedNode(model)
  node.answer((call) => void held.push(call))
  payer = await funded()
  nodeId = await add(owner.customerId, address)
})

const ask = (more: object = {}, at = gateway, by = payer) =>
  at.chat(by.key, { model, max_tokens: 20, messages: [{ role: 'user', content: 'hi' }], ...more })
const answer = (call: ScriptedCall) =>
  call.respond(200, {
    choices: [{ index: 0, message: { role: 'assistant', content: 'four words are here' }, finish_reason: 'stop' }],
    usage: nodeUsage,
  })
/** Of an answer, wei. */
const charged = 2_000
const remove = (id = nodeId) => gateway.admin('DELETE', pathOf(id))
interface Leaf {
  readonly entry_id: string
  readonly payee: string
  readonly amount_wei: string
  readonly leaf: string
  readonly proof: string[]
  readonly merkle_root: string
}
interface Share {
  readonly payee: string | null
  readonly wei: number
  readonly gross: number
}
const shares = (id = nodeId): Promise<readonly Share[]> => sql`
  select earned_payee as payee, amount_wei::int as wei, gross_wei::int as gross from payouts where node_id = ${id} order by created_at`
const payees = async (id = nodeId) => (await shares(id)).map(({ payee }) => payee)
const spent = async (by = payer) => {
  const [row] = await sql`select balance_wei::int as balance, reserved_wei::int as reserved
    from customers where customer_id = ${by.customerId}`
  return { spent: credit - row?.balance, reserved: row?.reserved }
}
const check = () => gateway.admin<{ sound: boolean; faults: object[] }>('GET', '/v1/admin/ledger/check')

/** A stream that has brought four words and goes on. */
async function streaming(at = gateway, by = payer) {
  const asked = ask({ stream: true }, at, by)
  await waitUntil('it runs', () => held.length === 1)
  const [call] = held.splice(0) as [ScriptedCall]
  call.open()
  await call.event(nodeChunk({ role: 'assistant', content: 'four words are here' }))
  const response = await asked
  return { text: response.text().catch(() => '') }
}

/** Answers what runs, and does this before it is charged. */
const whileChargesWait = (work: () => Promise<unknown>) =>
  sql.begin(async (tx) => {
    await tx`select 1 from customers where customer_id = ${payer.customerId} for update`
    for (const call of held.splice(0)) answer(call)
    await waitUntil('the charges wait', async () => (await lockWaits(sql, '%charge%')) > 0)
    await waitUntil('nothing runs there', async () => {
      const seen = await gateway.admin<{ in_flight: number }>('GET', pathOf(nodeId))
      return seen.in_flight === 0
    })
    await work()
  })
async function charges(asked: Promise<Response>): Promise<void> {
  const response = await asked
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
}
/** The shares of this node are paid: all of them, or none. */
async function paid(id: string): Promise<readonly { payee: string; wei: number; proven: boolean }[]> {
  const { batch } = await gateway.admin<{ batch: { batch_id: string } | null }>('POST', '/v1/admin/payout-batches', {})
  const [of] = await sql`select array_agg(entry_id) as ids from payouts where node_id = ${id}`
  const { proofs } = await gateway.admin<{ proofs: Leaf[] }>(
    'GET',
    `/v1/public/payout-batches/${batch?.batch_id}/leaves`,
  )
  const own = proofs.filter(({ entry_id: entry }) => of?.ids.includes(entry))
  return own.map(({ payee, amount_wei: wei, leaf, proof, merkle_root: root }) => ({
    payee,
    wei: Number(wei),
    proven: verifyProof(fromHex(leaf, 32), proof, root),
  }))
}

test.each([
  ['one charge', 1, 0],
  ['a group of charges', busy, 0],
  ['charges under a lease', busy, busy],
])('§31: the shares of %s that wait while the node is deleted are its owner’s', async (_, rows, leased) => {
  const asked = Array.from({ length: rows }, () => ask())
  await waitUntil('all run', () => held.length === rows)
  if (leased > 0) {
    await waitUntil('a lease', async () => {
      const leases = await sql`select 1 from money_leases where customer_id = ${payer.customerId}`
      return leases.length > 0
    })
    asked.push(...Array.from({ length: leased }, () => ask()))
    await waitUntil('all run', () => held.length === rows + leased)
  }
  await whileChargesWait(() => remove())
  for (const each of asked) await charges(each)
  const whole = { payee: address, wei: charged * 0.9, gross: charged }
  expect(await shares()).toEqual(Array.from({ length: rows + leased }, () => whole))
  expect(await spent()).toEqual({ spent: charged * (rows + leased), reserved: 0 })
  const [{ grouped } = { grouped: 0 }] = await sql`select count(*)::int as grouped from charge_groups
    where reserve_seq is not null and customer_id = ${payer.customerId}`
  expect(grouped > 0).toBe(leased > 0)
  node.stop()
})

test.each(['this', 'another'])('§31: and so is that of a stream that %s gateway has there', async (which) => {
  const beside = which === 'this' ? null : await startTestGateway({ beside: gateway })
  const at = beside ?? gateway
  try {
    await waitUntil('the gateway serves it', async () => {
      const { models } = await at.admin<{ models: { id: string }[] }>('GET', '/v1/admin/models')
      return models.some(({ id }) => id === model)
    })
    const { text } = await streaming(at)
    await remove()
    expect(await text).not.toContain('[DONE]')
    await waitUntil('what passed is charged', async () => (await shares()).length === 1)
    const [share] = await shares()
    expect(share?.payee).toBe(address)
    expect(await spent()).toEqual({ spent: share?.gross as number, reserved: 0 })
    expect(await check()).toMatchObject({ sound: true, faults: [] })
    expect(await paid(nodeId)).toEqual([{ payee: address, wei: share?.wei as number, proven: true }])
    expect(await check()).toMatchObject({ sound: true, faults: [] })
  } finally {
    node.stop()
    await beside?.stop()
  }
})

test('§31: and so are those of a gateway that loses the database, and charges when its leases have ended and the node is gone', async () => {
  const way = await severable(gateway.database.url)
  const beside = await startTestGateway({ beside: gateway, env: { DATABASE_URL: way.url } })
  try {
    const asked = Array.from({ length: busy }, () => ask({}, beside))
    await waitUntil('all run', () => held.length === busy)
    await waitUntil('a lease', async () => {
      const leases = await sql`select 1 from money_leases where customer_id = ${payer.customerId}`
      return leases.length > 0
    })
    asked.push(...Array.from({ length: busy }, () => ask({}, beside)))
    await waitUntil('all run', () => held.length === 2 * busy)
    await way.sever()
    for (const call of held.splice(0)) answer(call)
    await remove()
    await sql`update money_leases set ends_at = now() - interval '1 hour' where customer_id = ${payer.customerId}`
    await endStaleLeases(gateway.database.db)
    await way.restore()
    for (const each of asked) await charges(each)
    expect(await payees()).toEqual(Array.from({ length: 2 * busy }, () => address))
    expect(await spent()).toEqual({ spent: charged * 2 * busy, reserved: 0 })
  } finally {
    node.stop()
    await beside.stop()
    await way.close()
  }
})

test('§31: what was sold and then deleted pays each owner for its own work, and who adds the server again nothing of it', async () => {
  const asked = ask()
  await waitUntil('it runs', () => held.length === 1)
  const second = await funded()
  let again = ''
  await whileChargesWait(async () => {
    await gateway.admin('POST', `${pathOf(nodeId)}/drain`)
    await gateway.admin('POST', `${pathOf(nodeId)}/owner`, { customer_id: next.customerId, reason: 'it was sold' })
    await gateway.admin('PATCH', pathOf(nodeId), { payout_address: nextAddress, visibility: 'public' })
    await gateway.admin('POST', `${pathOf(nodeId)}/resume`)
    const { text } = await streaming(gateway, second)
    await remove()
    again = await add(owner.customerId, addressAgain)
    await text
  })
  await charges(asked)
  await waitUntil('what passed is charged', async () => (await shares()).length === 2)
  const [other] = (await shares()).filter(({ payee }) => payee === nextAddress)
  expect(await shares()).toContainEqual({ payee: address, wei: charged * 0.9, gross: charged })
  expect(await spent(second)).toEqual({ spent: other?.gross as number, reserved: 0 })
  node.answer(answer)
  await charges(ask())
  expect(await payees(again)).toEqual([addressAgain])
  await remove(again)
  node.stop()
})

test('§31: what it earned before it had an address goes to the one that it had when it was deleted', async () => {
  await gateway.admin('PATCH', pathOf(nodeId), { payout_address: null })
  node.answer(answer)
  await charges(ask())
  await gateway.admin('PATCH', pathOf(nodeId), { payout_address: nextAddress })
  await remove()
  expect(await payees()).toEqual([null])
  expect(await paid(nodeId)).toEqual([{ payee: nextAddress, wei: charged * 0.9, proven: true }])
  node.stop()
})

test('§36: where the shares of a deleted node go is as the event of its deletion says', async () => {
  await remove()
  const without = await gateway.node(node.url, { customerId: owner.customerId })
  await remove(without)
  node.stop()
  await sql`update deleted_nodes set payout_address = ${nextAddress} where node_id = ${nodeId}`
  await sql`insert into deleted_nodes (node_id, customer_id, payout_address) values (${without}, ${owner.customerId}, ${nextAddress})`
  const rule = 'every node without an agent is paid as its last event says'
  const { faults } = await check()
  expect(faults).toHaveLength(2)
  for (const subject of [nodeId, without]) expect(faults).toContainEqual({ rule, subject })
})
