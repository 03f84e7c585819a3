import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { start } from '../../src/main.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import { type TcpSwitch, tcpSwitch } from '../support/gateways/tcp-switch.ts'
import { enrollmentToken, nodeOf, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { endedSilently, failedUnsent, steadyLoad } from '../support/pools/steady-load.ts'

/** §26: what a gateway holds that died without a word ends by itself. */
const leaseMs = 30_000
/** From the kill to the beat of another gateway that finds the lease over: a third of a lease later at most. */
const noticedMs = leaseMs + leaseMs / 3 + 5_000
const secret = 'a-secret-of-the-pool-of-gateways'

let way: TcpSwitch
let asked: TestGateway
let holder: TestGateway
let process: GatewayProcess
let agent: TestAgent
let far: FakeNode
let near: FakeNode
let customer: TestCustomer
const cleanups: (() => unknown)[] = []

const freePort = () => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
  const port = server.port ?? 0
  server.stop(true)
  return port
}

function environment(port: number): Record<string, string> {
  return {
    SVC_PORT: String(port),
    SVC_PUBLIC_URL: `http://127.0.0.1:${way.port}`,
    SVC_PEER_URL: `http://127.0.0.1:${port}`,
    SVC_CLUSTER_SECRET: secret,
    SVC_ADMIN_RPM_PER_TOKEN: '1000000',
  }
}

beforeAll(async () => {
  way = await tcpSwitch(0)
  cleanups.push(() => way.stop())
  const [here, there] = [freePort(), freePort()]
  const urlOf = (port: number) => `http://127.0.0.1:${port}`
  asked = await startTestGateway({
    env: environment(here),
    launch: async (env) => ({ ...(await start(env, { quiet: true })), url: urlOf(here) }),
  })
  cleanups.push(() => asked.stop())
  holder = await startTestGateway({
    beside: asked,
    env: environment(there),
    launch: async (env) => {
      process = await spawnGateway(env)
      return { url: urlOf(there), stop: () => process.kill() }
    },
  })
  way.target = there
  far = startFakeNode({ models: ['m-1'], name: 'far-', answer: { chunks: 3 } })
  near = startFakeNode({ models: ['m-1'], name: 'near-', answer: { chunks: 3 } })
  // The slower one: what is chosen is the far one, for as long as it is there.
  near.setFaults({ kind: 'slowFirstToken', ms: 150 })
  cleanups.push(
    () => far.stop(),
    () => near.stop(),
  )
  customer = await asked.customer()
  const { enrollment_token: token } = await enrollmentToken(asked, customer.customerId)
  agent = await startAgent({ gatewayUrl: `http://127.0.0.1:${way.port}`, token, runtimes: [far.url] })
  cleanups.push(() => agent.remove())
  await asked.node(near.url, { customerId: customer.customerId })
  for (const gateway of [asked, holder]) await untilState(gateway, agent.nodeId, 'ready')
}, 60_000)
afterAll(async () => {
  for (const clean of cleanups.reverse()) await clean()
}, 30_000)

test('§26: the gateway that holds a tunnel is killed: no new request fails, and when its lease ends the node is gone', async () => {
  expect((await nodeOf(asked, agent.nodeId)).transport).toBe('peer')
  const keys = `/v1/admin/customers/${customer.customerId}/keys`
  const scope = { name: 'that node alone', node_scope: [agent.nodeId] }
  const { gateway_key: key } = await asked.admin<{ gateway_key: string }>('POST', keys, scope)
  const refusal = async () => {
    const answer = await asked.chat(key, { model: 'm-1', messages: [{ role: 'user', content: 'x' }] })
    return [answer.status, ((await answer.json()) as { error: { code: string } }).error.code] as const
  }
  const load = steadyLoad(asked, customer.key, 'm-1', 20)
  const servedBy = (node: FakeNode) => node.stats().requests
  await waitFor('the far node serves', () => servedBy(far) > 40)

  // Its machine is gone: nobody else is told, and nothing answers at its address.
  way.target = freePort()
  const killedMs = performance.now()
  await process.kill()
  // Who has nowhere else to go waits for a new tunnel for a moment, and is refused long before the lease is over.
  expect([
    [502, 'upstream_error'],
    [503, 'no_route_available'],
  ]).toContainEqual([...(await refusal())])
  await waitFor('the node takes no new work', async () => (await nodeOf(asked, agent.nodeId)).state !== 'ready')
  expect(await refusal()).toEqual([503, 'no_route_available'])
  expect((await nodeOf(asked, agent.nodeId)).transport).toBe('peer')
  const nearBefore = servedBy(near)
  await waitFor('the lease is over', async () => (await nodeOf(asked, agent.nodeId)).transport === null, noticedMs)
  expect(performance.now() - killedMs).toBeLessThan(noticedMs)
  // Whose tunnel it was is read from the database, and the node's own state follows.
  await waitFor('the node is gone', async () =>
    ['stale', 'offline'].includes((await nodeOf(asked, agent.nodeId)).state),
  )
  expect(servedBy(near)).toBeGreaterThan(nearBefore + 100)

  // The agent finds another gateway of the pool.
  way.target = Number(new URL(asked.url).port)
  await untilState(asked, agent.nodeId, 'ready', 60_000)
  expect((await nodeOf(asked, agent.nodeId)).transport).toBe('tunnel')
  const farBefore = servedBy(far)
  await waitFor('it serves again', () => servedBy(far) > farBefore + 10)

  const results = await load.stop()
  expect(results.filter(failedUnsent)).toEqual([])
  expect(results.filter(endedSilently)).toEqual([])
  // What was in the tunnel at that moment, and nothing else, ends with the documented error.
  const cut = results.filter(({ complete }) => !complete)
  expect(cut.filter(({ code }) => code !== 'node_lost')).toEqual([])
  expect((await nodeOf(asked, agent.nodeId)).in_flight).toBe(0)
})
