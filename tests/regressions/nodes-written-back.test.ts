import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { payFor } from '../support/money/money.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a node was written back by hand after its deletion and belonged to another customer. What it earned before that one had an address was paid to the
 * address of the owner before. With any change of it `audit books` reported it for ever.
 * Cause: what the database keeps of a deleted node stayed beside the node that is there. A batch took the address from it, and the books compared it with the
 * events of the node that is there. A node without an address that was deleted again left it as it was.
 * Fix: what is kept counts for no node that is there, and a deletion leaves nothing of the one before.
 */
const rule = 'every node without an agent is paid as its last event says'
const gateway = await fixture(startTestGateway())
const { sql } = gateway.database
const [before, next] = [await gateway.customer(), await gateway.customer()]
const payer = await gateway.customer()
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '100000' })
const address = `0x${'a1'.repeat(20)}`
const nextAddress = `0x${'b2'.repeat(20)}`
const pathOf = (id: string) => `/v1/admin/nodes/${id}`

/** A node that was deleted with an address, and written back as one of the next owner, who has none. */
async function writtenBack(port: number): Promise<string> {
  const made = { visibility: 'private', privacy_class: 'private', node_class: 'gpu', url: `http://127.0.0.1:${port}` }
  const { node_id: id } = await gateway.admin<{ node_id: string }>('POST', '/v1/admin/nodes', {
    ...made,
    customer_id: before.customerId,
  })
  await gateway.admin('PATCH', pathOf(id), { payout_address: address })
  await sql.unsafe(`create table kept_${id} as select * from nodes where node_id = '${id}'`)
  await gateway.admin('DELETE', pathOf(id))
  await sql.unsafe(`update kept_${id} set customer_id = '${next.customerId}', payout_address = null`)
  await sql.unsafe(`insert into nodes select * from kept_${id}`)
  // By which an event says what it is now.
  await gateway.admin('PATCH', pathOf(id), { name: `back-${port}` })
  return id
}
const earn = (nodeId: string) => payFor(gateway.database, { customerId: payer.customerId, nodeId, amountWei: 1_000n })
/** Where the shares of a node are paid by a batch that is made now. */
async function paid(nodeId: string): Promise<readonly (string | null)[]> {
  await gateway.admin('POST', '/v1/admin/payout-batches', {})
  const rows = await sql<{ payee: string | null; batch: string | null }[]>`
    select payee, batch_id as batch from payouts where node_id = ${nodeId} order by created_at`
  return rows.map(({ payee, batch }) => (batch === null ? null : payee))
}
const faults = async () =>
  (await gateway.admin<{ faults: { rule: string; subject: string }[] }>('GET', '/v1/admin/ledger/check')).faults
    .filter((fault) => fault.rule === rule)
    .map(({ subject }) => subject)

test('§31: what a node earns that was written back waits for the address of its owner now', async () => {
  const id = await writtenBack(9)
  await earn(id)
  expect(await paid(id)).toEqual([null])
  expect(await faults()).toEqual([])
  await gateway.admin('PATCH', pathOf(id), { payout_address: nextAddress })
  expect(await paid(id)).toEqual([nextAddress])
  expect(await faults()).toEqual([])
})

test('§31: nor does one that is deleted again pay an owner before', async () => {
  const id = await writtenBack(10)
  await earn(id)
  await gateway.admin('DELETE', pathOf(id))
  expect(await paid(id)).toEqual([null])
  expect(await faults()).toEqual([])
  // By an attacker with the database.
  await sql`insert into deleted_nodes (node_id, customer_id, payout_address) values (${id}, ${next.customerId}, ${address})`
  expect(await faults()).toEqual([id])
})
