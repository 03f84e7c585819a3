import { expect, test } from 'bun:test'
import { json, startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { tamper } from '../support/money/tampering.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: with the database alone somebody could have the earnings of a node's former owner sent elsewhere, and `audit books` said nothing.
 * Cause: the hash by which an event says where a node's earnings go left out the addresses of former owners.
 * Fix: they are in it.
 */
const rule = 'every node without an agent is paid as its last event says'
const gateway = await fixture(startTestGateway(stillLog))
const made = async (path: string, body: object, method = 'POST') =>
  json(await gateway.ask(method, path, { as: 'admin', json: body }))
const customer = async (name: string) => String((await made('/v1/admin/customers', { display_name: name })).customer_id)
const [former, next] = [await customer('Ada'), await customer('Grace')]

/** The id of a node whose former owner had an address. */
async function soldNode(port: number): Promise<string> {
  const owned = { visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
  const node = { customer_id: former, url: `http://127.0.0.1:${port}`, ...owned }
  const { node_id: nodeId } = await made('/v1/admin/nodes', node)
  const path = `/v1/admin/nodes/${nodeId}`
  await made(path, { payout_address: `0x${'a1'.repeat(20)}`, reason: 'paid there' }, 'PATCH')
  await made(`${path}/drain`, {})
  expect(await made(`${path}/owner`, { customer_id: next, reason: 'it was sold' })).toMatchObject({ customer_id: next })
  return String(nodeId)
}
async function wrong(): Promise<readonly string[]> {
  const { faults } = await gateway.gateway.checkBooks()
  return faults.filter((fault) => fault.rule === rule).map(({ subject }) => subject)
}
const elsewhere = (table: 'nodes' | 'deleted_nodes', nodeId: string) => {
  const addresses = `{"${former}": "0x${'de'.repeat(20)}"}`
  return tamper(gateway, [`update ${table} set former_payees = '${addresses}' where node_id = '${nodeId}'`])
}

test('§36: the books name a node whose former owner is to be paid elsewhere, and not one that was sold', async () => {
  const [there, gone] = [await soldNode(9), await soldNode(10)]
  const deleted = await gateway.ask('DELETE', `/v1/admin/nodes/${gone}`, { as: 'admin', json: { reason: 'scrap' } })
  expect(deleted.status).toBeLessThan(300)
  expect(await wrong()).toEqual([])
  expect([await elsewhere('nodes', there), await elsewhere('deleted_nodes', gone)]).toEqual([1, 1])
  expect(await wrong()).toEqual([there, gone])
})
