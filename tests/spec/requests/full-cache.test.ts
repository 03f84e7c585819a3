import { afterEach, beforeEach, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { shownMetric } from '../../support/gateways/metric.ts'

/** A node reads a word in a millisecond, and has in its cache what it has read. */
const kv = { msPerPromptToken: 1, cachedMsPerToken: 0, capacityPrompts: 10 }
const slots = 2

let gateway: TestGateway
let owner: TestCustomer
let nodes: readonly { readonly fake: FakeNode; readonly nodeId: string }[]
beforeEach(async () => {
  gateway = await startTestGateway({ env: { SVC_METRICS_PUBLIC: 'true' } })
  owner = await gateway.customer()
  const fakes = ['left-', 'right-'].map((name) =>
    startFakeNode({ name, models: ['m'], speaks: 'llama.cpp', slots, contextLength: 100_000, kv }),
  )
  nodes = await Promise.all(
    fakes.map(async (fake) => ({ fake, nodeId: await gateway.node(fake.url, { customerId: owner.customerId }) })),
  )
})
afterEach(async () => {
  await gateway.stop()
  for (const { fake } of nodes) fake.stop()
})

const ask = (messages: readonly object[], more: object = {}, init: RequestInit = {}) =>
  gateway.chat(owner.key, { model: 'm', messages, stream: true, ...more }, init)
const said = (role: string, content: string) => ({ role, content })
const conversation = [said('system', 'word '.repeat(1_500)), said('user', 'first')]
const nextTurn = [...conversation, said('assistant', 'yes'), said('user', 'second')]

/** Where the conversation was begun, and the other node. */
async function begun() {
  await (await ask(conversation)).text()
  const [home, other] = nodes.toSorted((a, b) => b.fake.stats().requests - a.fake.stats().requests)
  if (home === undefined || other === undefined) throw new Error('two nodes')
  expect([home.fake.stats().requests, other.fake.stats().requests]).toEqual([1, 0])
  return { home, other }
}

/**
 * Takes all slots of a node until they are let go. Each answer has begun: calls whose first token is late would tell of a longer queue, the
 * later the more so.
 */
async function filled({ fake, nodeId }: (typeof nodes)[number]): Promise<() => Promise<void>> {
  fake.setFaults({ kind: 'stall', afterChunks: 2, times: slots, scope: 'chat' })
  const leaving = new AbortController()
  const init = { signal: leaving.signal }
  const held = await Promise.all(
    Array.from({ length: slots }, async () => {
      const answer = await ask([said('user', 'hold')], { svc: { node_id: nodeId } }, init)
      const reader = answer.body?.getReader()
      const { value } = (await reader?.read()) ?? {}
      expect(new TextDecoder().decode(value)).toContain('data: {')
      return reader
    }),
  )
  expect(fake.stats().openRequests).toBe(slots)
  return async () => {
    leaving.abort()
    await Promise.all(held.map((reader) => reader?.closed.catch(() => {})))
  }
}

test('§29: a turn waits for a slot of the node that has its conversation in the cache', async () => {
  const { home, other } = await begun()
  const letGo = await filled(home)
  const answer = ask(nextTurn)
  await waitFor('it to wait', async () => (await shownMetric(gateway, 'svc_requests_queued')) === 1)
  await letGo()
  expect(await (await answer).text()).toContain(home.fake.name)
  expect(other.fake.stats().requests).toBe(0)
})

test('§29: what has nothing in that cache goes where a slot is open, at once', async () => {
  const { home, other } = await begun()
  const letGo = await filled(home)
  expect(await (await ask([said('user', 'news '.repeat(300))])).text()).toContain(other.fake.name)
  expect(home.fake.stats().openRequests).toBe(slots)
  await letGo()
})

test('§29: a wait for that node is in vain once, and then another one that is open serves', async () => {
  const { home, other } = await begun()
  const letGo = await filled(home)
  const asked = ask(nextTurn)
  await waitFor('it to wait', async () => (await shownMetric(gateway, 'svc_requests_queued')) === 1)
  const answer = await asked
  expect(answer.status).toBe(200)
  expect(await answer.text()).toContain(other.fake.name)
  // Nobody made room: its slots are as full as before.
  expect(home.fake.stats().openRequests).toBe(slots)
  expect(await shownMetric(gateway, 'svc_requests_queued')).toBe(0)
  await letGo()
})

test('§29: a client that leaves while it waits for that node gives its place back', async () => {
  const { home } = await begun()
  const letGo = await filled(home)
  const leaving = new AbortController()
  const answer = ask(nextTurn, {}, { signal: leaving.signal }).catch(() => null)
  await waitFor('it to wait', async () => (await shownMetric(gateway, 'svc_requests_queued')) === 1)
  leaving.abort()
  await answer
  await waitFor('its place to be free', async () => (await shownMetric(gateway, 'svc_requests_queued')) === 0)
  expect(home.fake.stats().requests).toBe(1 + slots)
  await letGo()
})
