import { expect, test } from 'bun:test'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { withFakeNodes } from '../support/nodes/fake-nodes.ts'
import { scoped } from '../support/run/fixture.ts'

test('§8: a lost node serves again after its hysteresis', async () => {
  await using gateway = await scoped(startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }))
  await withFakeNodes(2, { models: ['m'] }, async ([lost, other]) => {
    const customer = await gateway.customer()
    const register = (url = '') => gateway.node(url, { customerId: customer.customerId })
    const nodeId = await register(lost?.url)
    await register(other?.url)
    const state = async () => (await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).state
    lost?.setFaults({ kind: 'refuse' })
    await waitFor('stale', async () => (await state()) === 'stale')
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
    for (let at = 0; at < 4; at++) expect((await gateway.chat(customer.key, body)).status).toBe(200)
    expect(lost?.stats().requests).toBe(0)
    lost?.clearFaults()
    await waitFor('ready', async () => (await state()) === 'ready')
    const pinned = await gateway.chat(customer.key, { ...body, svc: { node_id: nodeId } })
    expect([pinned.status, lost?.stats().requests]).toEqual([200, 1])
  })
})
