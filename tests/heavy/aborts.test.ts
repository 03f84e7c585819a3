import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import { abortMany, abortModel, abortWindows, quantile } from '../support/pools/abort-trial.ts'

const abortsEach = 500
const abortMsMax = 50
/** The heap's own breathing, after a first round of the same size. */
const growthBytesMax = 24 * 1024 * 1024
const descriptorsMax = 6

let running: GatewayProcess
let gateway: TestGateway
let node: FakeNode
beforeAll(async () => {
  gateway = await startTestGateway({
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_POLL_INTERVAL_MS: '1000' },
    launch: async (env) => {
      running = await spawnGateway(env)
      return running
    },
  })
  node = startFakeNode({ models: [abortModel] })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})

test('§5: 500 aborts in each window: the node hears of each, and nothing grows', async () => {
  const { customerId, key } = await gateway.customer()
  const nodeId = await gateway.node(node.url, { customerId })
  const idle = () =>
    waitFor(
      'an idle gateway',
      async () => (await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).in_flight === 0,
    )
  const rows: Record<string, string>[] = []
  for (const window of abortWindows) {
    await abortMany(gateway, key, node, window, abortsEach)
    await idle()
    const before = { descriptors: running.descriptors(), bytes: running.residentBytes() }
    const delays = await abortMany(gateway, key, node, window, abortsEach)
    await idle()
    await waitFor('closed sockets', () => running.descriptors() <= before.descriptors + descriptorsMax)
    const growth = running.residentBytes() - before.bytes
    rows.push({
      'client leaves': window,
      aborts: String(delays.length),
      'median ms': quantile(delays, 0.5).toFixed(2),
      '99 % ms': quantile(delays, 0.99).toFixed(2),
      'worst ms': quantile(delays, 1).toFixed(2),
      'MiB grown': (growth / 2 ** 20).toFixed(1),
      'sockets grown': String(running.descriptors() - before.descriptors),
    })
    expect(quantile(delays, 0.99)).toBeLessThanOrEqual(abortMsMax)
    expect(growth).toBeLessThan(growthBytesMax)
  }
  console.table(rows)
  expect(node.stats().openRequests).toBe(0)
})
