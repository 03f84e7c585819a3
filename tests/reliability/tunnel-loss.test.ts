import { afterEach, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { start } from '../../src/main.ts'
import { EventStreamReader } from '../support/clients/event-stream.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type TcpSwitch, tcpSwitch } from '../support/gateways/tcp-switch.ts'
import { enrollmentToken, nodeOf, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const streams = 100

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

interface Setting {
  readonly gateway: TestGateway
  readonly keeper: TestGateway
  readonly way: TcpSwitch
  readonly agent: TestAgent
  readonly server: FakeNode
  readonly customer: TestCustomer
}

/** It says of itself that it is where the agent dials; it is asked at its own port. */
async function gatewayBehind(way: TcpSwitch, beside?: TestGateway): Promise<TestGateway> {
  const gateway = await startTestGateway({
    launch: async (given) => {
      const server = await start(given, { quiet: true })
      return { stop: () => server.stop(), url: `http://127.0.0.1:${server.port}` }
    },
    env: { SVC_PUBLIC_URL: `http://127.0.0.1:${way.port}`, SVC_SHUTDOWN_GRACE_MS: '0' },
    ...(beside === undefined ? {} : { beside }),
  })
  cleanups.push(() => gateway.stop())
  way.target = Number(new URL(gateway.url).port)
  return gateway
}

/** An agent whose way to its gateway can be cut. `keeper`: only keeps the database. */
async function setting(): Promise<Setting> {
  const way = await tcpSwitch(0)
  cleanups.push(() => way.stop())
  const keeper = await startTestGateway()
  cleanups.push(() => keeper.stop())
  const gateway = await gatewayBehind(way, keeper)
  const server = startFakeNode({ models: ['m-1'], answer: { chunks: 2_000, intervalMs: 250 } })
  cleanups.push(() => server.stop())
  const customer = await gateway.customer()
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const agent = await startAgent({ gatewayUrl: `http://127.0.0.1:${way.port}`, token, runtimes: [server.url] })
  cleanups.push(() => agent.remove())
  await untilState(gateway, agent.nodeId, 'ready')
  return { gateway, keeper, way, agent, server, customer }
}

const chat = (gateway: TestGateway, { key }: TestCustomer, more: object) =>
  gateway.chat(key, { model: 'm-1', messages: [{ role: 'user', content: 'x' }], ...more })

/** Streams that have begun. */
async function openStreams(gateway: TestGateway, customer: TestCustomer): Promise<readonly EventStreamReader[]> {
  return Promise.all(
    Array.from({ length: streams }, async () => {
      const response = await chat(gateway, customer, { stream: true })
      expect(response.status).toBe(200)
      const reader = new EventStreamReader(response)
      await reader.chunk()
      return reader
    }),
  )
}

/** The code with which a stream ends; null: none, or it did not end by itself. */
async function endOf(reader: EventStreamReader): Promise<string | null> {
  for (;;) {
    const block = await reader.block()
    if (block === null) return null
    const code = /"code":"(\w+)"/.exec(block)?.[1]
    if (code !== undefined) return (await reader.block()) === null ? code : null
  }
}

async function recovered({ gateway, agent, server, customer }: Omit<Setting, 'way' | 'keeper'>): Promise<void> {
  await waitUntil('the model server is left', () => server.stats().openRequests === 0)
  await untilState(gateway, agent.nodeId, 'ready')
  expect((await nodeOf(gateway, agent.nodeId)).in_flight).toBe(0)
  server.setAnswer({ chunks: 3, intervalMs: 0 })
  const answer = await chat(gateway, customer, { stream: true })
  expect((await answer.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
}

test('§22: a tunnel that breaks ends its 100 streams with node_lost, leaks no slot, and comes back', async () => {
  const set = await setting()
  const readers = await openStreams(set.gateway, set.customer)
  expect((await nodeOf(set.gateway, set.agent.nodeId)).in_flight).toBe(streams)
  set.way.cut()
  const ends = await Promise.all(readers.map(endOf))
  expect(new Set(ends)).toEqual(new Set(['node_lost']))
  await recovered(set)
})

test('§1, §22: a gateway that restarts ends its 100 streams with server_shutdown; its successor has the node', async () => {
  const set = await setting()
  const readers = await openStreams(set.gateway, set.customer)
  const ends = Promise.all(readers.map(endOf))
  await set.gateway.stop()
  expect(new Set(await ends)).toEqual(new Set(['server_shutdown']))
  const successor = await gatewayBehind(set.way, set.keeper)
  await recovered({ ...set, gateway: successor })
})
