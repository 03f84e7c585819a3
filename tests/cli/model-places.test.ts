import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { metricSum } from '../support/gateways/metric.ts'
import { startOllamaNode } from '../support/nodes/ollama-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

let nodeId = ''

const gateway = await fixture(
  startTestGateway({ env: { SVC_METRICS_PUBLIC: 'true', SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }),
)
const customer = await gateway.customer()
const ollama = await fixture(
  startOllamaNode({ models: ['big', 'small'], holdLoads: true, memoryBytes: 3 * 2 ** 30, cachedTokens: 500 }),
)
const silent = await fixture(startFakeNode({ models: ['big'] }))
for (const [url, name] of [
  [ollama.url, 'attic'],
  [silent.url, 'cellar'],
] as const) {
  nodeId = await gateway.node(url, { customerId: customer.customerId })
  await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { name })
}
const { nodes } = await gateway.admin<{ nodes: readonly Node[] }>('GET', '/v1/admin/nodes')
nodeId = nodes.find(({ name }) => name === 'attic')?.node_id ?? ''

async function modelOf(name: string) {
  const { runtimes } = await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)
  const model = runtimes[0]?.models.find((one) => one.model === name)
  if (model === undefined) throw new Error(`no ${name}`)
  return model
}
const ask = async (model: string) => {
  const body = { model, stream: true, messages: [{ role: 'user', content: 'hello' }], svc: { node_id: nodeId } }
  const response = await gateway.chat(customer.key, body)
  expect(response.status).toBe(200)
  await response.text()
}

describe('§30: where each model is, as operators see it', () => {
  test('cold, loading, loaded with its memory; and nothing where the runtime tells nothing', async () => {
    const cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.viewer })
    const listed = async () => (await cli.run(['models', 'list'])).out
    expect(await modelOf('big')).toMatchObject({ loaded: false, loading_since: null, memory_mb: null })
    expect(await listed()).toMatch(/^big +attic +yes +cold +- +0 /m)
    expect(await listed()).toMatch(/^big +cellar +yes +- +- +0 +- +- +- +- +- +-$/m)
    const asked = ask('big')
    await waitFor('the load', () => ollama.waiting === 1)
    const since = (await modelOf('big')).loading_since
    expect(Date.parse(since ?? '')).toBeLessThanOrEqual(Date.now())
    expect(await listed()).toMatch(/^big +attic +yes +loading \d+ s +- +1 /m)
    ollama.finishLoads()
    await asked
    await waitFor('the memory', async () => (await modelOf('big')).memory_mb === 3_072)
    expect(await modelOf('big')).toMatchObject({ loaded: true, loading_since: null })
    expect(await listed()).toMatch(/^big +attic +yes +loaded +3072 +0 /m)
    expect((await cli.json<{ on_nodes: readonly unknown[] }>('models', 'list')).on_nodes).toHaveLength(2)
    cli.close()
  })

  test('§32: loads, unloads and the share of prompts in caches, by model and node', async () => {
    const metric = async (name: string, having: string) =>
      metricSum(await (await fetch(`${gateway.url}/metrics`)).text(), name, having)
    const small = 'model="small",node="attic"'
    expect(await metric('svc_model_loads_total', small)).toBe(0)
    for (let round = 1; round <= 2; round++) {
      await ask('small')
      await waitFor('the load', async () => (await modelOf('small')).loaded === true)
      expect(await metric('svc_model_loads_total', small)).toBe(round)
      ollama.unload('small')
      await waitFor('the unload', async () => (await modelOf('small')).loaded === false)
      expect(await metric('svc_model_unloads_total', small)).toBe(round)
    }
    // The load that the test above has held.
    expect(await metric('svc_model_load_seconds_total', 'model="big",node="attic"')).toBeGreaterThan(0)
    expect(await metric('svc_cache_match_ratio_sum', small)).toBe(1)
    expect(await metric('svc_cache_match_ratio_count', small)).toBe(2)
    expect(await metric('svc_queue_wait_seconds_count', small)).toBe(2)
  })
})
