import { afterAll, describe, expect, test } from 'bun:test'
import { Ollama } from 'ollama'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { type NodeOptions, startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { type OllamaNode, type OllamaNodeOptions, startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const digest = '18b18e59f4a6d0ce57fb2e4febf00f9c2a86d5b9010fea026ee24b6ac5fd9d56'
const details = {
  parent_model: '',
  format: 'gguf',
  family: 'llama',
  families: ['llama', 'clip'],
  parameter_size: '8.0B',
  quantization_level: 'Q4_K_M',
}
const entry = { size: 4_920_753_328, digest, modified_at: '2026-08-20T09:12:44.120938477+02:00', details }
const said = { ...entry, modified_at: '2026-08-20T07:12:44.120Z' }
const nothing = {
  parent_model: '',
  format: '',
  family: '',
  families: [],
  parameter_size: '',
  quantization_level: '',
}
const nodes: OllamaNode[] = []
afterAll(async () => {
  for (const node of nodes) node.stop()
})
const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1' }
const gateway = await fixture(startTestGateway({ env }))
const customer = await gateway.customer()
const plain = await fixture(startFakeNode({ models: ['plain'] }))
await gateway.node(plain.url, { customerId: customer.customerId })
const url = gateway.ollamaUrl ?? ''
const client = new Ollama({ host: url, headers: { authorization: `Bearer ${customer.key}` } })

async function start(options: OllamaNodeOptions, registered: NodeOptions = {}): Promise<OllamaNode> {
  const node = startOllamaNode(options)
  nodes.push(node)
  await gateway.node(node.url, { customerId: customer.customerId, ...registered })
  return node
}
const get = async (path: string) =>
  (await (await fetch(url + path, { headers: { authorization: `Bearer ${customer.key}` } })).json()) as {
    models: Record<string, unknown>[]
  }
const named = async (path: string, name: string) => (await get(path)).models.find((model) => model.name === name)

describe('§28: sizes, digests and details are those that the server tells, and nothing is made up', () => {
  test('of a model on the disk', async () => {
    const writing = { ...entry, capabilities: ['completion', 'vision'] }
    await start({ models: ['told:8b'], entries: { 'told:8b': writing } })
    expect(await named('/api/tags', 'told:8b')).toEqual({ name: 'told:8b', model: 'told:8b', ...said })
    expect(await client.show({ model: 'told:8b' })).toMatchObject({
      details,
      capabilities: ['completion', 'vision'],
      model_info: { 'general.architecture': 'llama' },
      modified_at: said.modified_at,
    } as object)
  })

  test('of a model in memory, on the card and beside it', async () => {
    const sizes = { memoryBytes: 6_724_864_001, videoBytes: 5_000_000_000 }
    await start({ models: ['split:8b'], entries: { 'split:8b': entry }, ...sizes })
    await start({ models: ['cpu:8b'], memoryBytes: 6_724_864, videoBytes: 0 })
    for (const model of ['split:8b', 'cpu:8b']) await client.generate({ model, prompt: '' })
    const running = { model: 'split:8b', size: 6_724_864_001, size_vram: 5_000_000_000, digest, details }
    expect(await named('/api/ps', 'split:8b')).toEqual({
      name: 'split:8b',
      ...running,
      expires_at: expect.any(String),
    })
    expect(await named('/api/ps', 'cpu:8b')).toMatchObject({ size: 6_724_864, size_vram: 0 })
  })

  test('what a server does not say is absent or empty, and never 0', async () => {
    const listed = await named('/api/tags', 'plain')
    expect(listed).toEqual({
      name: 'plain',
      model: 'plain',
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      details: nothing,
      modified_at: expect.stringMatching(/Z$/),
    })
    expect((await client.show({ model: 'plain' })).model_info).toMatchObject({ 'general.architecture': 'unknown' })
    await start({ models: ['silent:1b'], memoryBytes: 0 })
    await client.generate({ model: 'silent:1b', prompt: '' })
    const running = await named('/api/ps', 'silent:1b')
    expect(Object.keys(running ?? {}).toSorted()).toEqual(['details', 'digest', 'expires_at', 'model', 'name'])
  })

  test('nonsense of a server is nothing, and its words are no place for its key', async () => {
    const odd = {
      size: -5,
      digest: 'sha256:nonsense',
      modified_at: 'yesterday',
      details: { format: 7, family: 'a\u0000b', families: [null, 'x'.repeat(65)], parameter_size: {} },
      capabilities: 'all',
    }
    const secret = 'key-of-the-node-itself'
    const telling = { ...entry, details: { ...details, family: `bearer ${secret}` } }
    const entries = { 'odd:1b': odd, 'large:1b': { size: 1e300 }, 'telling:1b': telling }
    await start({ models: Object.keys(entries), entries }, { apiKey: secret })
    for (const name of ['odd:1b', 'large:1b']) {
      const { size, ...listed } = (await named('/api/tags', name)) ?? {}
      expect([name, size, listed.details]).toEqual([name, undefined, nothing])
    }
    expect(await named('/api/tags', 'telling:1b')).toBeUndefined()
    expect(JSON.stringify(await get('/api/tags'))).not.toContain(secret)
  })

  test('those of one’s own node come before those of another’s', async () => {
    const other = await gateway.customer()
    const open = { min_privacy_class: 'public' }
    const shared = { customerId: other.customerId, visibility: 'public', privacyClass: 'public' } as const
    await start({ models: ['both:1b'], entries: { 'both:1b': { ...entry, size: 1 } } }, shared)
    await start({ models: ['both:1b'], entries: { 'both:1b': { ...entry, size: 2 } } })
    await gateway.admin('PATCH', `/v1/admin/customers/${customer.customerId}`, { gateway_policy: open })
    expect(await named('/api/tags', 'both:1b')).toMatchObject({ size: 2 })
  })

  test('through an agent', async () => {
    const inner = startOllamaNode({ models: ['deep:8b'], entries: { 'deep:8b': entry }, memoryBytes: 7_000_000_000 })
    nodes.push(inner)
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
    await using agent = await scoped(startAgent({ gatewayUrl: gateway.url, token, runtimes: [inner.url] }))
    await untilState(gateway, agent.nodeId, 'ready')
    expect(await named('/api/tags', 'deep:8b')).toEqual({ name: 'deep:8b', model: 'deep:8b', ...said })
    await client.chat({ model: 'deep:8b', messages: [{ role: 'user', content: 'hi' }] })
    await waitFor('the memory', async () => (await named('/api/ps', 'deep:8b'))?.size === 7_000_000_000)
  })
})
