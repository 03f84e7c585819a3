import { expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'

const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
      SVC_PROBE_TIMEOUT_MS: '1000',
      SVC_STALE_AFTER_MS: '3000',
      SVC_OFFLINE_AFTER_MS: '5000',
    },
  }),
)
const customer = await gateway.customer()

const register = async (node: FakeNode) => gateway.node(node.url, { customerId: customer.customerId })
const seen = (nodeId: string) => gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
const body = (model: string, more: object) => ({ model, messages: [{ role: 'user', content: 'hi' }], ...more })

test('§8: a node that falls silent is stale, then offline; its stream ends with node_lost, its other work moves', async () => {
  await using silent = await scoped(
    startFakeNode({ models: ['m'], name: 'silent-', answer: { chunks: 100, intervalMs: 10 } }),
  )
  await using other = await scoped(startFakeNode({ models: ['m'], name: 'other-' }))
  const silentId = await register(silent)
  const streaming = await gateway.chat(customer.key, body('m', { stream: true }))
  silent.setFaults({ kind: 'hang', scope: 'all' })
  const whole = gateway.chat(customer.key, body('m', {}))
  await waitFor('both calls', () => silent.stats().requests === 2)
  const reading = streaming.text()
  await register(other)

  expect(await (await whole).text()).toContain('other-')
  expect((await seen(silentId)).state).toBe('offline')
  // It answered in full before its node counted as offline, or was told of the loss: never a silent end.
  expect(await reading).toMatch(/\[DONE\]\n\n$|"code":"node_lost"/)
  await waitFor('no call on it', async () => (await seen(silentId)).in_flight === 0)

  silent.clearFaults()
  await waitFor('ready again', async () => (await seen(silentId)).state === 'ready')
})

test('§8: in-flight streams of a node that goes offline hear node_lost and no [DONE]', async () => {
  await using node = await scoped(startFakeNode({ models: ['stalling'], faults: [{ kind: 'stall', afterChunks: 2 }] }))
  const nodeId = await register(node)
  const response = await gateway.chat(customer.key, body('stalling', { stream: true }))
  node.setFaults({ kind: 'stall', afterChunks: 2 }, { kind: 'hang', scope: 'probe' })
  const text = await response.text()
  expect(text).toContain('"code":"node_lost"')
  expect(text).not.toContain('[DONE]')
  expect((await seen(nodeId)).state).toBe('offline')
  await node.idle()
  expect((await seen(nodeId)).in_flight).toBe(0)
})

test('§23: a revoked node loses its calls; a draining one finishes them and takes no new ones', async () => {
  await using node = await scoped(startFakeNode({ models: ['drained'], answer: { chunks: 20, intervalMs: 10 } }))
  const nodeId = await register(node)
  const finishing = await gateway.chat(customer.key, body('drained', { stream: true }))
  await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/drain`, {})
  await waitFor('draining', async () => (await seen(nodeId)).state === 'draining')
  const refused = await gateway.chat(customer.key, body('drained', {}))
  expect(refused.status).toBe(503)
  await refused.text()
  expect(await finishing.text()).toEndWith('data: [DONE]\n\n')
  await waitFor('drained', async () => (await seen(nodeId)).state === 'live')

  await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/resume`, {})
  await waitFor('ready', async () => (await seen(nodeId)).state === 'ready')
  node.setFaults({ kind: 'stall', afterChunks: 1 })
  const lost = await gateway.chat(customer.key, body('drained', { stream: true }))
  await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/revoke`, {})
  expect(await lost.text()).toContain('"code":"node_lost"')
})
