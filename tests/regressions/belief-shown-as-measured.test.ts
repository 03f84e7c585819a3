import { afterAll, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** With each poll a node without work was believed to be 3 % faster, down to the fastest: of 300 ms, 90 were left after so many. */
const polls = 40
const slowMs = 300

afterAll(async () => {
  for (const { fake } of nodes) fake.stop()
})
const gateway = await fixture(startTestGateway({ env: { SVC_POLL_INTERVAL_MS: '50' } }))
const customer = await gateway.customer()
const key = customer.key
const fakes = [startFakeNode({ models: ['m'] }), startFakeNode({ models: ['m'] })]
const nodes = await Promise.all(
  fakes.map(async (fake) => ({ fake, id: await gateway.node(fake.url, { customerId: customer.customerId }) })),
)

async function measured(id: string) {
  const { runtimes } = await gateway.admin<Node>('GET', `/v1/admin/nodes/${id}`)
  const model = runtimes[0]?.models[0]
  return { first: model?.first_token ?? null, ewma: model?.ttft_ewma_ms ?? null }
}

// The pool showed what placement believed: a node of 1.9 s stood there with 46 ms after twelve minutes without work.
test('§32: a node shows its last measured first token, however long it has had no work', async () => {
  const [slow, fast] = nodes
  if (slow === undefined || fast === undefined) throw new Error('no nodes')
  expect(await measured(slow.id)).toEqual({ first: null, ewma: null })
  slow.fake.setFaults({ kind: 'slowFirstToken', ms: slowMs })
  const messages = [{ role: 'user', content: 'hello' }]
  for (const { id } of [slow, fast, fast]) {
    const response = await gateway.chat(key, { model: 'm', messages, stream: true, svc: { node_id: id } })
    expect(response.status).toBe(200)
    await response.text()
  }
  const before = await measured(slow.id)
  expect(before.first?.ms).toBeGreaterThanOrEqual(slowMs)
  expect(before.first?.of).toBe(1)
  expect((await measured(fast.id)).first?.of).toBe(2)
  const { probes } = slow.fake.stats()
  await waitUntil('many polls', () => slow.fake.stats().probes > probes + polls)
  expect(await measured(slow.id)).toEqual(before)
})
