import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { postJson } from '../support/clients/post-json.ts'
import { torchPythonWith } from '../support/clients/torch.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { infinityPackages, type PythonServer, startInfinity } from '../support/nodes/torch-servers.ts'

/** Infinity itself, with tiny random models, behind a whole gateway. */
const found = await torchPythonWith(infinityPackages)
const python = typeof found === 'string' ? null : found.python
if (typeof found === 'string') console.log(`skipped: ${found}`)

const slowMs = 600_000

describe.skipIf(python === null)('§35: Infinity behind the gateway', () => {
  let server: PythonServer
  let gateway: TestGateway
  let customer: TestCustomer
  let nodeId: string
  beforeAll(async () => {
    server = await startInfinity(python ?? '')
    gateway = await startTestGateway()
    customer = await gateway.customer()
    nodeId = await gateway.node(server.url, { customerId: customer.customerId })
  }, slowMs)
  afterAll(async () => {
    await gateway?.stop()
    await server?.stop()
  })

  const ask = (path: string, body: object) => postJson(gateway.url + path, customer.key, body)

  test('its kind, and what its models do, though their names do not say it', async () => {
    const [runtime] = (await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).runtimes
    expect(runtime?.runtime_kind).toBe('openai')
    const told = runtime?.models.map(({ upstream_model: id, serves, context_length: context }) => [id, serves, context])
    expect(told?.toSorted()).toEqual([
      ['words-a', ['embedding'], null],
      ['words-b', ['rerank'], null],
    ])
  })

  test('embeddings, as numbers and in base64, equal to its own', async () => {
    const input = ['a cat', 'a dog']
    const own = await fetch(`${server.url}/v1/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'words-a', input }),
    })
    const { data: expected } = (await own.json()) as { data: { index: number; embedding: number[] }[] }
    const got = await (await ask('/v1/embeddings', { model: 'words-a', input })).json()
    expect(got).toMatchObject({ object: 'list', data: expected, usage: { prompt_tokens: expect.any(Number) } })
    const packed = await (await ask('/v1/embeddings', { model: 'words-a', input, encoding_format: 'base64' })).json()
    const [first] = packed.data as { embedding: string }[]
    const bytes = Buffer.from(first?.embedding ?? '', 'base64')
    const numbers = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
    expect([...numbers]).toEqual((expected[0]?.embedding ?? []).map(Math.fround))
  })

  test('a ranking: every document once, the best first', async () => {
    const documents = ['a cat', 'a dog', 'rain']
    const ranked = await ask('/v1/rerank', { model: 'words-b', query: 'a cat', documents })
    const { results } = (await ranked.json()) as { results: { index: number; relevance_score: number }[] }
    expect(results.map(({ index }) => index).toSorted()).toEqual([0, 1, 2])
    expect(results.map(({ relevance_score: score }) => score)).toEqual(
      results.map(({ relevance_score: score }) => score).toSorted((a, b) => b - a),
    )
  })

  test('a chat with a model that embeds is refused before it reaches the server', async () => {
    const chat = await ask('/v1/chat/completions', { model: 'words-a', messages: [{ role: 'user', content: 'hi' }] })
    expect([chat.status, await chat.json()]).toMatchObject([400, { error: { code: 'modality_not_supported' } }])
  })
})
