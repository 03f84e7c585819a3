import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { startFakeNodes } from '../support/nodes/fake-nodes.ts'
import { runFailingPool } from '../support/pools/failing-pool.ts'
import { endedSilently, failedUnsent } from '../support/pools/steady-load.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(
  startTestGateway({
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
  }),
)
const nodes = await fixture(
  startFakeNodes(3, { models: ['pooled'], answer: { chunks: 4, intervalMs: 5, firstTokenMs: 5 } }),
)
const customer = await gateway.customer()
const nodeIds = await Promise.all(nodes.map(({ url }) => gateway.node(url, { customerId: customer.customerId })))

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
