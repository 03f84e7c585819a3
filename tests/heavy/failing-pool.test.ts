import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { FakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { spawnGateway } from '../support/gateways/gateway-process.ts'
import { startFakeNodes } from '../support/nodes/fake-nodes.ts'
import { runFailingPool } from '../support/pools/failing-pool.ts'
import { endedSilently, failedUnsent } from '../support/pools/steady-load.ts'

const perSecond = 200
const phaseRequests = 7 * perSecond

let gateway: TestGateway
let nodes: readonly FakeNode[]
beforeAll(async () => {
  gateway = await startTestGateway({
    env: {
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
      SVC_POLL_INTERVAL_MS: '1000',
      SVC_PROBE_TIMEOUT_MS: '500',
      SVC_FAILOVER_FIRST_CHUNK_MS: '1000',
      SVC_EJECTION_MS: '2000',
      SVC_STALE_AFTER_MS: '2500',
      SVC_OFFLINE_AFTER_MS: '4000',
    },
    launch: spawnGateway,
  })
  nodes = startFakeNodes(3, { models: ['pooled'], answer: { chunks: 4, intervalMs: 10, firstTokenMs: 20 } })
})
afterAll(async () => {
  for (const node of nodes) node.stop()
  await gateway.stop()
})

test('§8: 200 requests a second on three nodes: one is killed, one hangs, both come back', async () => {
  const { customerId, key } = await gateway.customer()
  const nodeIds = await Promise.all(nodes.map(({ url }) => gateway.node(url, { customerId })))
  const members = nodes.map((node, at) => ({ node, nodeId: nodeIds[at] ?? '' }))

  const report = await runFailingPool({ gateway, key, model: 'pooled', members, perSecond, phaseRequests })

  const { results, followedMs, servedAfter } = report
  const unsent = results.filter(failedUnsent)
  const cut = results.filter((result) => result.gotByte && !result.complete)
  console.table([
    {
      requests: results.length,
      'failed before a byte': unsent.length,
      'cut after one': cut.length,
      'table followed after, ms': Math.round(followedMs),
      'served by each after recovery': servedAfter.join(' / '),
    },
  ])
  expect(unsent).toEqual([])
  expect(results.filter(endedSilently)).toEqual([])
  expect(followedMs).toBeLessThan(1_000)
  expect(results.length).toBeGreaterThan(3 * phaseRequests)
})
