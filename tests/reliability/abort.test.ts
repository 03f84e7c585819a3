import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { several, startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import { shownMetric } from '../support/gateways/metric.ts'
import { abortMany, abortModel, abortWindows, quantile } from '../support/pools/abort-trial.ts'
import { fixture } from '../support/run/fixture.ts'

/** Short form; `tests/heavy/aborts.test.ts` does 500, and holds how soon the node hears of them. */
const abortsPerWindow = 20
/** What 60 aborts may add: nothing but the noise of a collector. */
const growthBytesMax = 48 * 1024 * 1024
/** Connections that the gateway keeps to its node and to the database come and go. */
const descriptorsMax = 6

let running: GatewayProcess

const gateway = await fixture(
  startTestGateway({
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_METRICS_PUBLIC: 'true' },
    launch: async (env) => {
      running = await spawnGateway(env)
      return running
    },
  }),
)
const node = await fixture(startFakeNode({ models: [abortModel] }))
const customer = await gateway.customer()
const nodeId = await gateway.node(node.url, { customerId: customer.customerId })

async function idle(): Promise<boolean> {
  const { in_flight: inFlight } = await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
  return inFlight === 0 && (await shownMetric(gateway, 'svc_requests_in_flight')) === 0
}

describe('§5: a client that leaves stops the node', () => {
  for (const window of abortWindows) {
    test(`${window}: the node hears of it each time, and nothing stays`, async () => {
      await abortMany(gateway, customer.key, node, window, 3)
      await waitFor('an idle gateway', idle)
      const before = { descriptors: running.descriptors(), bytes: running.residentBytes() }

      const delays = await abortMany(gateway, customer.key, node, window, abortsPerWindow)

      const [median, worst] = [quantile(delays, 0.5), quantile(delays, 1)]
      console.log(`abort, ${window}: median ${median.toFixed(1)} ms, worst ${worst.toFixed(1)} ms of ${delays.length}`)
      expect(delays).toHaveLength(abortsPerWindow)
      await waitFor('an idle gateway', idle)
      expect(node.stats().openRequests).toBe(0)
      await waitFor('closed sockets', () => running.descriptors() <= before.descriptors + descriptorsMax)
      expect(running.residentBytes() - before.bytes).toBeLessThan(growthBytesMax)
    })
  }

  test('many at once, in every window: each node call ends', async () => {
    const seen = node.stats().abortedRequests
    node.setFaults({ kind: 'slowHeaders', ms: 60_000 })
    const clients = Array.from({ length: 40 }, (_, at) => {
      const controller = new AbortController()
      const body = { model: abortModel, stream: at % 2 === 0, messages: [{ role: 'user', content: 'stay' }] }
      return { controller, answer: gateway.chat(customer.key, body, { signal: controller.signal }).catch(() => 'left') }
    })
    await waitFor('40 calls', () => node.stats().openRequests === 40)
    for (const { controller } of clients) controller.abort()
    expect(await Promise.all(clients.map(({ answer }) => answer))).toEqual(Array.from({ length: 40 }, () => 'left'))
    await node.idle()
    expect(node.stats().abortedRequests).toBe(seen + 40)
    await waitFor('an idle gateway', idle)
  })

  // Each process counts the slots of a node by itself: two requests may both find the only one free.
  test.skipIf(several)('a client that leaves while it waits for a slot takes its place with it', async () => {
    const full = startFakeNode({ models: ['one-slot'], speaks: 'llama.cpp', slots: 1 })
    const fullId = await gateway.node(full.url, { customerId: customer.customerId })
    try {
      full.setFaults({ kind: 'slowHeaders', ms: 60_000 })
      const body = { model: 'one-slot', messages: [{ role: 'user', content: 'hi' }] }
      const holder = new AbortController()
      const held = gateway.chat(customer.key, body, { signal: holder.signal }).catch(() => 'left')
      await waitFor('the slot to be taken', () => full.stats().openRequests === 1)
      const waiter = new AbortController()
      const waiting = gateway.chat(customer.key, body, { signal: waiter.signal }).catch(() => 'left')
      await waitFor('a waiter', async () => (await shownMetric(gateway, 'svc_requests_queued')) === 1)
      waiter.abort()
      expect(await waiting).toBe('left')
      await waitFor('no waiter', async () => (await shownMetric(gateway, 'svc_requests_queued')) === 0)
      expect(full.stats().requests).toBe(1)
      holder.abort()
      expect(await held).toBe('left')
      await full.idle()
    } finally {
      await gateway.admin('POST', `/v1/admin/nodes/${fullId}/revoke`, {})
      full.stop()
    }
  })

  test('§5, §18: a client that left is 499, and no failure of the node', async () => {
    expect(await shownMetric(gateway, 'svc_upstream_failures_total')).toBe(0)
    const left = await shownMetric(gateway, 'svc_http_requests_total', 'status="499"')
    expect(left).toBe(node.stats().abortedRequests + (several ? 0 : 2))
    const { runtimes } = await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
    expect(runtimes[0]?.models[0]?.ejected_until).toBeNull()
  })
})
