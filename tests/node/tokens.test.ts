import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { newId } from '../../src/ids.ts'
import { nodeTokensPath } from '../../src/protocol/wire/nodes/tokens.ts'
import { type PostInit, postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../support/nodes/agents.ts'
import { type LoneAgent, startLoneAgent } from '../support/nodes/lone-agent.ts'
import { agentRuntime, startScriptedAgent } from '../support/nodes/scripted-agent.ts'
import { recorded, saying, startTokenNode, type TokenNode } from '../support/nodes/token-node.ts'
import { fixture } from '../support/run/fixture.ts'

type Json = Record<string, unknown>
const kinds = ['llama.cpp', 'vllm', 'sglang', 'other'] as const
const messages = [{ role: 'user', content: 'the a of and' }]

/** Behind the tunnel of an agent. */
const servers = new Map<string, TokenNode>()
afterAll(async () => {
  for (const server of servers.values()) await server.stop()
})
const gateway = await fixture(startTestGateway({ env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8' } }))
const customer = await gateway.customer()
for (const kind of kinds) servers.set(kind, startTokenNode({ kind, model: kind }))
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({ gatewayUrl: gateway.url, token, runtimes: [...servers.values()].map(({ url }) => url) }),
)
const other = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
const earlier = await fixture(
  startScriptedAgent(gateway.url, other.enrollment_token, [agentRuntime(newId('rt'), ['earlier'])]),
)
for (const id of [agent.nodeId, earlier.nodeId]) await untilState(gateway, id, 'ready')

const server = (kind: string) => servers.get(kind) as TokenNode
beforeEach(() => {
  for (const kind of ['llama.cpp', 'vllm', 'sglang'] as const) server(kind).answer(saying(recorded[kind]))
})

const post = (path: string, body: object, init: PostInit = {}) => postJson(gateway.url + path, customer.key, body, init)
const said = async (path: string, body: object) => {
  const response = await post(path, body)
  return [response.status, (await response.json()) as Json] as const
}
const count = async (model: string) => (await said('/v1/messages/count_tokens', { model, messages }))[1]

describe('§28: tokens behind an agent', () => {
  test.each([
    ['llama.cpp', 12, '<s> a of'],
    ['vllm', 5, '<|begin_of_text|>Hi'],
    ['sglang', 3, '<|begin_of_text|>Hi'],
  ] as const)('an agent counts with the tokenizer of its server: %s', async (kind, tokens, text) => {
    expect(await count(kind)).toMatchObject({
      input_tokens: tokens,
      svc: { usage_estimated: false, runtime_kind: kind },
    })
    const ids = [...recorded[kind]['/tokenize'].tokens]
    const answer = [200, { count: tokens, tokens: ids, token_strs: null }]
    expect(await said('/v1/tokenize', { model: kind, prompt: 'the' })).toMatchObject(answer)
    expect(await said('/v1/tokenize', { model: kind, messages })).toMatchObject(answer)
    expect(await said('/v1/detokenize', { model: kind, tokens: [1] })).toMatchObject([200, { prompt: text }])
    expect(server(kind).calls.at(-1)?.body).toMatchObject({ model: kind, tokens: [1] })
  })

  test('a long list comes through the tunnel', async () => {
    const tokens = Array.from({ length: 300_000 }, (_, at) => at)
    server('vllm').answer(() => Response.json({ count: tokens.length, tokens }))
    expect(await count('vllm')).toMatchObject({ input_tokens: tokens.length, svc: { usage_estimated: false } })
  })

  test('what goes wrong behind the agent is what it would be without one', async () => {
    const refused = async (path: string, body: object) => {
      const [status, { error }] = await said(path, body)
      return [status, (error as { code: string }).code]
    }
    const text = { model: 'vllm', prompt: 'x' }
    server('vllm').answer(() => Response.json({}, { status: 500 }))
    expect(await refused('/v1/tokenize', text)).toEqual([502, 'upstream_error'])
    server('vllm').answer(() => Response.json({ count: -1, tokens: [1] }))
    expect(await refused('/v1/tokenize', text)).toEqual([502, 'upstream_error'])
    server('vllm').answer(() => Response.json({}, { status: 400 }))
    expect(await refused('/v1/tokenize', text)).toEqual([400, 'invalid_request'])
    server('vllm').answer(() => Response.json({}, { status: 404 }))
    expect(await refused('/v1/tokenize', text)).toEqual([400, 'modality_not_supported'])
    expect(await refused('/v1/tokenize', { ...text, model: 'other' })).toEqual([400, 'modality_not_supported'])
    expect(await count('vllm')).toMatchObject({ svc: { usage_estimated: true } })
  })

  test('an agent without such a route, of a version before, has its models estimated', async () => {
    expect(await count('earlier')).toMatchObject({ svc: { usage_estimated: true } })
    expect(earlier.calls.at(-1)?.path).toBe(nodeTokensPath)
    const [status, body] = await said('/v1/tokenize', { model: 'earlier', prompt: 'x' })
    expect([status, body]).toMatchObject([400, { error: { code: 'modality_not_supported' } }])
    expect(earlier.badSignatures()).toBe(0)
  })

  test('a client that leaves ends the question at the server', async () => {
    const arrived = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<void>()
    server('vllm').answer(async ({ signal }) => {
      signal.addEventListener('abort', () => gone.resolve())
      arrived.resolve()
      await gone.promise
      return Response.json({})
    })
    const leaving = new AbortController()
    const body = { model: 'vllm', messages }
    const asking = post('/v1/messages/count_tokens', body, { signal: leaving.signal }).catch((error: unknown) => error)
    await arrived.promise
    leaving.abort()
    expect(await asking).toMatchObject({ name: 'AbortError' })
    await gone.promise
  })
})

describe('§22: the agent’s route for tokens', () => {
  let lone: LoneAgent
  beforeAll(async () => {
    lone = await startLoneAgent({ runtimes: [server('vllm').url] })
  })
  afterAll(() => lone?.remove())

  const runtimeId = 'rt_00000000000000000000000000'

  test('the route is for the gateway alone', async () => {
    const body = { runtime_id: runtimeId, model: 'vllm', text: 'x' }
    for (const token of [lone.localToken, 'nonsense']) {
      const response = await postJson(lone.node.url + nodeTokensPath, token, body)
      expect([response.status, await response.json()]).toMatchObject([401, { code: 'missing_credentials' }])
    }
  })

  test('what is no question is refused before a server is asked', async () => {
    const ask = async (body: object) => {
      const response = await lone.call('POST', nodeTokensPath, body)
      return [response.status, ((await response.json()) as { code: string }).code]
    }
    const before = server('vllm').calls.length
    const about = { runtime_id: runtimeId, model: 'vllm' }
    expect(await ask({ ...about, text: 'x' })).toEqual([404, 'runtime_not_found'])
    for (const wrong of [{ text: 5 }, { chat: [] }, { tokens: ['a'] }, { tokens: [-1] }, { text: 'x', model: '' }]) {
      expect((await ask({ ...about, ...wrong }))[1]).toBe('invalid_request')
    }
    expect(server('vllm').calls.length).toBe(before)
    expect(lone.log()).not.toContain('"text"')
  })
})
