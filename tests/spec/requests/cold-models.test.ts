import { afterAll, afterEach, expect, test } from 'bun:test'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { shownMetric } from '../../support/gateways/metric.ts'
import { type OllamaNode, startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { fixture } from '../../support/run/fixture.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'

const coldWaitMs = 8_000

const nodes: OllamaNode[] = []

async function add(options: Parameters<typeof startOllamaNode>[0]): Promise<OllamaNode> {
  const node = startOllamaNode(options)
  nodes.push(node)
  await gateway.node(node.url, { customerId: customer.customerId })
  return node
}

afterAll(async () => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_METRICS_PUBLIC: 'true',
      SVC_HEADER_COMMIT_MS: '50',
      SVC_COLD_WAIT_MS: String(coldWaitMs),
      SVC_QUEUE_WAIT_MS: '200',
    },
  }),
)
const customer = await gateway.customer()

afterEach(() => {
  for (const node of nodes) node.finishLoads()
})

const ask = (model: string, stream = true, signal?: AbortSignal) =>
  gateway.chat(
    customer.key,
    { model, stream, messages: [{ role: 'user', content: 'hi' }] },
    signal === undefined ? {} : { signal },
  )

const queued = () => shownMetric(gateway, 'svc_requests_queued')

test.each([true, false])('§30: one request causes the load, the others wait for it (streams: %p)', async (stream) => {
  const model = `single-${stream}`
  const node = await add({ models: [model], holdLoads: true })
  const answers = Array.from({ length: 8 }, () => ask(model, stream))
  await waitFor('the load', () => node.waiting === 1)
  await waitFor('the others in line', async () => (await queued()) === 7)
  expect(node.chats).toBe(1)
  node.finishLoads()
  for (const answer of await Promise.all(answers)) {
    expect(answer.status).toBe(200)
    expect(await answer.text()).toContain('words')
  }
  expect(node.chats).toBe(8)
})

test('§30: whoever waits for a load hears that it does, not who else waits', async () => {
  const node = await add({ models: ['comment'], holdLoads: true })
  const answers = [ask('comment'), ask('comment')]
  await waitFor('the load', () => node.waiting === 1)
  const texts = (await Promise.all(answers)).map(async (answer) => answer.text())
  node.finishLoads()
  for (const text of await Promise.all(texts)) {
    expect(text).toStartWith(': svc loading\n\n')
    expect(text).not.toContain('queued')
    expect(text).toEndWith('data: [DONE]\n\n')
  }
})

test('§30: a load has a clock of its own; beyond it: 503 with a Retry-After', async () => {
  const node = await add({ models: ['slow'], holdLoads: true })
  const gone = new AbortController()
  const first = ask('slow', false, gone.signal).catch(() => null)
  await waitFor('the load', () => node.waiting === 1)
  const tookMs = stopwatch()
  const refused = await ask('slow', false)
  expect(tookMs()).toBeGreaterThan(coldWaitMs - 100)
  expect(refused.status).toBe(503)
  expect(await refused.json()).toMatchObject({ error: { code: 'model_loading' } })
  const seconds = Number(refused.headers.get('retry-after'))
  expect(seconds).toBeGreaterThanOrEqual(1)
  expect(seconds).toBeLessThanOrEqual(120)
  gone.abort()
  await first
})

test('§30: when the one that causes the load leaves, the next one causes it', async () => {
  const node = await add({ models: ['left'], holdLoads: true })
  const gone = new AbortController()
  const first = ask('left', true, gone.signal)
    .then((answer) => answer.text())
    .catch(() => null)
  await waitFor('the load', () => node.waiting === 1)
  const second = ask('left')
  await waitFor('the other in line', async () => (await queued()) === 1)
  gone.abort()
  await first
  await waitFor('the second at the node', () => node.chats === 2)
  node.finishLoads()
  expect(await (await second).text()).toContain('words')
})

test('§30: a load that fails ejects the route at once, and those who waited are served elsewhere', async () => {
  const [bad, good] = [
    await add({ models: ['fails'], holdLoads: true }),
    await add({ models: ['fails'], holdLoads: true }),
  ]
  const answers = Array.from({ length: 3 }, () => ask('fails', false))
  const loading = () => nodes.find((node) => node.waiting === 1 && (node === bad || node === good))
  await waitFor('a load', () => loading() !== undefined)
  const failing = loading() ?? bad
  const other = failing === bad ? good : bad
  other.finishLoads()
  failing.failLoads()
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200)
  expect(failing.chats).toBe(1)
  expect(other.chats).toBe(3)
})

test('§29: while it is in memory somewhere, no other node is asked to load it', async () => {
  const warm = startOllamaNode({ models: ['warm'] })
  nodes.push(warm)
  const body = JSON.stringify({ model: 'warm', messages: [] })
  await (await fetch(`${warm.url}/v1/chat/completions`, { method: 'POST', body })).text()
  const cold = await add({ models: ['warm'], holdLoads: true })
  await gateway.node(warm.url, { customerId: customer.customerId })
  for (let asked = 0; asked < 5; asked++) expect((await ask('warm')).status).toBe(200)
  expect([warm.chats, cold.chats]).toEqual([6, 0])
})
