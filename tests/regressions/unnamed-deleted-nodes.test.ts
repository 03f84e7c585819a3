import { expect, test } from 'bun:test'
import { json, startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { tamper } from '../support/money/tampering.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: where the event of a node's deletion had been purged, or was of a version that said nothing in it, an attacker with the database could have what
 * waits for the node's owner sent elsewhere, and `audit books` said nothing, also after an admin had vouched for all rows.
 * Cause: vouching named customers, nodes, prices and tokens, and not what the database keeps of deleted nodes; and an event that says nothing explained whatever
 * was kept.
 * Fix: it names them, too, and what has come since then without an event is found.
 */
const rule = 'every node without an agent is paid as its last event says'
const gateway = await fixture(startTestGateway(stillLog))
const made = async (path: string, body: object, method = 'POST') =>
  json(await gateway.ask(method, path, { as: 'admin', json: body }))

test('§36: an admin vouches for where the shares of deleted nodes go, and a change is found from then on', async () => {
  const { customer_id } = await made('/v1/admin/customers', { display_name: 'Ada' })
  const owned = { customer_id, visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
  const { node_id: nodeId } = await made('/v1/admin/nodes', { ...owned, url: 'http://127.0.0.1:9' })
  const address = { payout_address: `0x${'a1'.repeat(20)}`, reason: 'paid there' }
  await made(`/v1/admin/nodes/${nodeId}`, address, 'PATCH')
  const { node_id: unpaid } = await made('/v1/admin/nodes', { ...owned, url: 'http://127.0.0.1:10' })
  for (const id of [nodeId, unpaid]) {
    const removed = await gateway.ask('DELETE', `/v1/admin/nodes/${id}`, { as: 'admin', json: { reason: 'scrap' } })
    expect(removed.status).toBe(204)
  }
  // As a version before wrote it, some time ago.
  await gateway.database
    .sql`update admin_approval_events set metadata = metadata - 'state', created_at = created_at - interval '1 hour'`
  const named = async () => (await made('/v1/admin/audit/rows', { reason: 'looked at all of them' })).named_count
  // The customer, and the node.
  expect([await named(), await named()]).toEqual([2, 0])
  const faults = async () => (await gateway.gateway.checkBooks()).faults.filter((fault) => fault.rule === rule)
  expect(await faults()).toEqual([])
  // By an attacker: another address of the one, and one of the other, which had none.
  const elsewhere = `0x${'de'.repeat(20)}`
  await tamper(gateway, [
    `update deleted_nodes set payout_address = '${elsewhere}' where node_id = '${nodeId}'`,
    `insert into deleted_nodes (node_id, customer_id, payout_address) values ('${unpaid}', '${customer_id}', '${elsewhere}')`,
  ])
  const subjects = (await faults()).map(({ subject }) => subject)
  expect(subjects.toSorted()).toEqual([String(nodeId), String(unpaid)].toSorted())
})
