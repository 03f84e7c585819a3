import { expect, test } from 'bun:test'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

// The event of an export or a credit said what the customer was then, as that of a change does. So the next of them made an edit by hand in
// the database look like an operator's; and the gateway itself did it for a node's payout address, by the next model that it loaded.
const gateway = await fixture(startTestGateway())

const faults = async () => (await gateway.gateway.checkBooks()).faults.map(({ rule, subject }) => `${rule}: ${subject}`)
const post = (path: string, body: object) => gateway.ask('POST', path, { as: 'admin', json: body })

test('an edit stays a fault when the customer is credited, debited and exported', async () => {
  const made = await json(await post('/v1/admin/customers', { display_name: 'Ada', reason: 'new' }))
  const id = String(made.customer_id)
  await gateway.database.sql`update customers set gateway_policy = '{"daily_tokens": 1}' where customer_id = ${id}`
  const fault = `every customer and its keys are as their last event made them: ${id}`
  expect(await faults()).toContain(fault)
  const reason = 'paid by card'
  expect((await post(`/v1/admin/customers/${id}/credits`, { amount_wei: '5', reason })).status).toBeLessThan(300)
  expect((await post(`/v1/admin/customers/${id}/debits`, { amount_wei: '2', reason })).status).toBeLessThan(300)
  expect((await post(`/v1/admin/customers/${id}/webhook-secret`, { reason })).status).toBeLessThan(300)
  for (const what of ['usage-export', 'invoice']) {
    const read = await gateway.ask('GET', `/v1/admin/customers/${id}/${what}`, { as: 'admin' })
    expect([what, read.status]).toEqual([what, 200])
  }
  expect(await faults()).toContain(fault)
})

test('so does one of a node’s payout address, when the node is drained and resumed', async () => {
  const made = await json(await post('/v1/admin/customers', { display_name: 'Bob', reason: 'new' }))
  const node = { url: 'http://127.0.0.1:9', visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
  const { node_id: id } = await json(
    await post('/v1/admin/nodes', { customer_id: made.customer_id, ...node, reason: 'new' }),
  )
  await gateway.database.sql`update nodes set payout_address = ${`0x${'de'.repeat(20)}`} where node_id = ${String(id)}`
  const fault = `every node without an agent is paid as its last event says: ${id}`
  expect(await faults()).toContain(fault)
  for (const command of ['drain', 'resume'])
    expect((await post(`/v1/admin/nodes/${id}/${command}`, { reason: 'repair' })).status).toBe(200)
  expect(await faults()).toContain(fault)
})
