import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { llamaPython } from '../support/nodes/llama-server.ts'
import { type LlamaSwap, llamaSwapProgram, startLlamaSwap } from '../support/nodes/llama-swap.ts'

/** llama-swap itself behind a whole gateway, with llama.cpp's own server as what it starts and ends. */
const python = await llamaPython()
const missing = python === null || llamaSwapProgram === null
if (llamaSwapProgram === null)
  console.log('skipped: no package registry has llama-swap; build it of its sources and name the program in LLAMA_SWAP')
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

const contextTokens = 2_048
const slowMs = 240_000
const messages = [{ role: 'user', content: 'the way of a' }]

describe.skipIf(missing)('§35: llama-swap behind the gateway', () => {
  let server: LlamaSwap
  let gateway: TestGateway
  let customer: TestCustomer
  let nodeId: string
  beforeAll(async () => {
    server = await startLlamaSwap(llamaSwapProgram ?? '', python ?? '', contextTokens)
    gateway = await startTestGateway()
    customer = await gateway.customer()
    nodeId = await gateway.node(server.url, { customerId: customer.customerId })
  }, slowMs)
  afterAll(async () => {
    await gateway?.stop()
    await server?.stop()
  })

  const ask = (path: string, body: object, signal?: AbortSignal) =>
    postJson(gateway.url + path, customer.key, { max_tokens: 4, ignore_eos: true, ...body }, { signal })
  const models = async () => {
    const [runtime] = (await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).runtimes
    const told = runtime?.models.map(({ upstream_model: id, serves, context_length: context, loaded }) => ({
      id,
      serves,
      context,
      loaded,
    }))
    return {
      kind: runtime?.runtime_kind,
      slots: runtime?.slots_total,
      told: told?.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    }
  }

  test('its kind, its models, what they do and their context where its file says it; none is started by the look', async () => {
    expect(await models()).toEqual({
      kind: 'openai',
      slots: null,
      told: [
        { id: 'swap-a', serves: ['chat'], context: contextTokens, loaded: false },
        { id: 'swap-b', serves: ['chat'], context: null, loaded: false },
        { id: 'swap-c', serves: ['rerank'], context: null, loaded: false },
      ],
    })
    expect(await server.running()).toEqual([])
  })

  test(
    'a request starts its model and ends the other one, and the gateway knows which is in memory',
    async () => {
      for (const model of ['swap-a', 'swap-b']) {
        const answer = await ask('/v1/chat/completions', { model, messages })
        expect([answer.status, await answer.json()]).toMatchObject([
          200,
          { model, choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 4 } },
        ])
        expect(await server.running()).toEqual([model])
        const inMemory = async () => (await models()).told?.filter(({ loaded }) => loaded).map(({ id }) => id)
        await waitFor('the gateway to know it', async () => Bun.deepEquals(await inMemory(), [model]))
      }
    },
    slowMs,
  )

  test('a stream, its usage, and the cached tokens of the server behind it', async () => {
    const body = { model: 'swap-b', messages, stream: true }
    for (const again of [false, true]) {
      const text = await (await ask('/v1/chat/completions', body)).text()
      const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data))
      expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
      const { usage } = chunks.at(-1)
      expect(usage.completion_tokens).toBe(4)
      if (again) expect(usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(0)
    }
  })

  test('a client that leaves frees the slot of the server behind it', async () => {
    const leave = new AbortController()
    const body = { model: 'swap-b', messages, stream: true, max_tokens: 2_000 }
    const long = await ask('/v1/chat/completions', body, leave.signal)
    await long.body?.getReader().read()
    leave.abort()
    const busy = async () => {
      const slots = await (await fetch(`${server.url}/upstream/swap-b/slots`)).json()
      return (slots as { is_processing: boolean }[]).filter((slot) => slot.is_processing).length
    }
    await waitFor('all slots to be free', async () => (await busy()) === 0)
  })

  test('what the server behind it refuses is the client’s, and no failure of the node', async () => {
    const refused = await ask('/v1/chat/completions', { model: 'swap-b', messages, grammar: 'root ::= (' })
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: 'invalid_request' } }])
    const long = [{ role: 'user', content: 'b'.repeat(contextTokens * 2) }]
    const beyond = await ask('/v1/chat/completions', { model: 'swap-b', messages: long })
    expect([beyond.status, await beyond.json()]).toMatchObject([400, { error: { code: 'context_length_exceeded' } }])
    expect((await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).last_error).toBeNull()
  })
})
