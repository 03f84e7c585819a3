import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { FakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { startFakeNodes } from '../support/nodes/fake-nodes.ts'
import { runFailingPool } from '../support/pools/failing-pool.ts'
import { endedSilently, failedUnsent } from '../support/pools/steady-load.ts'

let gateway: TestGateway
let nodes: readonly FakeNode[]
let customer: TestCustomer
let nodeIds: readonly string[]

beforeAll(async () => {
  gateway = await startTestGateway({
    env: {
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
      SVC_POLL_INTERVAL_MS: '200',
      // The nodes work in this process: what they may take is longer than a busy machine makes it stand still.
      SVC_PROBE_TIMEOUT_MS: '3000',
      SVC_FAILOVER_FIRST_CHUNK_MS: '3000',
      SVC_EJECTION_MS: '500',
      // A whole answer has no first chunk to miss: the hung node gives it up when it counts as offline.
      SVC_STALE_AFTER_MS: '5000',
      SVC_OFFLINE_AFTER_MS: '9000',
    },
  })
  nodes = startFakeNodes(3, { models: ['pooled'], answer: { chunks: 4, intervalMs: 5, firstTokenMs: 5 } })
  customer = await gateway.customer()
  nodeIds = await Promise.all(nodes.map(({ url }) => gateway.node(url, { customerId: customer.customerId })))
})
afterAll(async () => {
  for (const node of nodes) node.stop()
  await gateway.stop()
})

test('§8: of three nodes one is killed, one hangs, both come back: no request fails that had not sent a byte', async () => {
  const { results, standing, servedAfter } = await runFailingPool({
    gateway,
    key: customer.key,
    model: 'pooled',
    members: nodes.map((node, at) => ({ node, nodeId: nodeIds[at] ?? '' })),
    perSecond: 60,
    phaseRequests: 100,
  })

  const cut = results.filter((result) => !result.complete)
  console.log(
    `${results.length} requests, ${cut.length} cut after their first byte; after recovery ${servedAfter.join('/')}`,
  )
  expect(results.length).toBeGreaterThan(200)
  expect(results.filter(failedUnsent)).toEqual([])
  expect(results.filter(endedSilently)).toEqual([])
  // Only what stood on the two nodes at the moment they failed.
  expect(cut.length).toBeLessThanOrEqual(standing)
})
