import { describe, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { connectRawClient } from '../support/clients/raw-client.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { shownMetric } from '../support/gateways/metric.ts'
import { fixture } from '../support/run/fixture.ts'

const many = 500
const slotMs = 150

const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_QUEUE_WAITING_MAX: String(many + 10),
      SVC_QUEUE_WAITING_KEY_MAX: String(many),
      SVC_QUEUE_WAIT_MS: '60000',
      SVC_METRICS_PUBLIC: 'true',
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
    },
  }),
)
const owner = await gateway.customer()
const policy = { min_privacy_class: 'public' }
const greedy = await gateway.customer({ policy, keyPolicy: policy })
const modest = await gateway.customer({ policy, keyPolicy: policy })

/** A node of somebody else with one slot, which its first request holds until the test lets it go. */
async function busyNode(model: string): Promise<{ node: FakeNode; letGo(): void }> {
  const node = startFakeNode({ models: [model], speaks: 'llama.cpp', slots: 1, answer: { firstTokenMs: slotMs } })
  await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
  node.setFaults({ kind: 'slowHeaders', ms: 300_000, times: 1 })
  const holding = new AbortController()
  void ask(greedy.key, model, 'holds', holding.signal)
  await waitFor('the slot to be taken', () => node.stats().openRequests === 1)
  return { node, letGo: () => holding.abort() }
}

const ask = (key: string, model: string, content: string, signal?: AbortSignal): Promise<number | null> =>
  gateway
    .chat(
      key,
      {},
      {
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
        ...(signal === undefined ? {} : { signal }),
      },
    )
    .then(async (response) => {
      await response.text()
      return response.status
    })
    .catch(() => null)

const inLine = (count: number) =>
  waitFor(`${count} in line`, async () => (await shownMetric(gateway, 'svc_requests_queued')) === count)
/** Each on a socket of its own: a `fetch` has at most 256 at once. Returns how they leave. */
async function crowdOf(count: number, model: string): Promise<() => Promise<void>> {
  const body = { model, messages: [{ role: 'user', content: 'greedy' }] }
  const clients = await Promise.all(
    Array.from({ length: count }, () => connectRawClient(gateway.url, greedy.key, body)),
  )
  await inLine(count)
  return async () => {
    for (const client of clients) client.leave()
    await inLine(0)
  }
}

/** Whose requests the node got, in order. */
const served = ({ requests }: FakeNode) =>
  requests.map(({ body }) => /"content":"(\w+)"/.exec(JSON.stringify(body).replaceAll('\\', ''))?.[1] ?? '')

describe('§30: a line in which everybody comes up', () => {
  test("one customer's 500 waiting requests delay another's single one by at most one slot's time", async () => {
    const { node, letGo } = await busyNode('shared')
    const leave = await crowdOf(many, 'shared')
    const first = ask(modest.key, 'shared', 'modest')
    await inLine(many + 1)
    letGo()
    expect(await first).toBe(200)
    expect(served(node).slice(1, 3).sort()).toEqual(['greedy', 'modest'])
    // And so again in the middle of it: whoever has a slot then, and one turn of the other at most, come before.
    await waitFor('some turns', () => node.requests.length >= 5)
    // So long that the next one is in line before the turn of a slot is over.
    node.setAnswer({ firstTokenMs: 2_000 })
    const turns = node.requests.length
    await waitFor('a long turn', () => node.requests.length > turns)
    const before = node.requests.length
    expect(await ask(modest.key, 'shared', 'modest')).toBe(200)
    expect(served(node).lastIndexOf('modest') - before).toBeLessThanOrEqual(1)
    await leave()
    node.stop()
  })

  test('a key of a higher priority comes before all that wait with a lower one', async () => {
    const { node, letGo } = await busyNode('ranked')
    const path = `/v1/admin/customers/${modest.customerId}/keys`
    const policy = { min_privacy_class: 'public', priority: 9 }
    const made = await gateway.admin<{ gateway_key: string }>('POST', path, { name: 'urgent', model_policy: policy })
    const leave = await crowdOf(40, 'ranked')
    const urgent = [0, 1, 2].map(() => ask(made.gateway_key, 'ranked', 'urgent'))
    await inLine(43)
    letGo()
    expect(await Promise.all(urgent)).toEqual([200, 200, 200])
    expect(served(node).slice(1, 4)).toEqual(['urgent', 'urgent', 'urgent'])
    await leave()
    node.stop()
  })
})
