import { afterEach, expect, test } from 'bun:test'
import { createAgentProbe } from '../../../src/actors/agents/agent-probe.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newId } from '../../../src/ids.ts'
import { agentRuntime, runtimeTimes, WatchedRuntime } from '../../../src/node/runtimes/local-runtime.ts'
import type { Bounded } from '../../../src/polling/node-watch.ts'
import { verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { statusMessage } from '../../../src/protocol/signing/signatures.ts'
import { type AgentRuntime, cacheTokensMax } from '../../../src/protocol/wire/nodes/agent.ts'
import { isoTime } from '../../../src/time.ts'
import { createDirectTransport } from '../../../src/transport/http1/direct.ts'
import { KvServer } from '../../node/kv-events/publisher.ts'
import { newIdentity } from '../../support/nodes/enrolling.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

const bounded: Bounded = (work) => work(new AbortController().signal)

/** What a gateway makes of an agent that says so of its runtimes. */
async function statusesHeard(runtimes: readonly AgentRuntime[]) {
  const [identity, nodeId] = [newIdentity(), newId('node')]
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ headers }) => {
      const status = { node_id: nodeId, sent_at: isoTime(Date.now()), runtimes, transport_keys: [] }
      const message = statusMessage(nodeId, headers.get('x-svc-status-nonce') ?? '', status)
      return Response.json({ ...status, signature_ed25519: identity.sign(message) })
    },
  })
  cleanups.push(() => server.stop(true))
  const url = `http://127.0.0.1:${server.port}`
  const transport = createDirectTransport({ url, apiKey: null, connectTimeoutMs: 5_000 })
  cleanups.push(() => transport.close())
  const key = verifyKey(identity.publicKey)
  if (key === null) throw new Error('its own key')
  const result = await createAgentProbe({ transport, nodeId, identity: key })(bounded)
  return result.kind === 'answered' ? result.reports.map(({ status }) => status) : result.code
}

/** The size of the cache of the first model of each. */
async function heard(runtimes: readonly AgentRuntime[]) {
  const statuses = await statusesHeard(runtimes)
  return typeof statuses === 'string' ? statuses : statuses.map(({ models }) => models[0]?.cacheTokens)
}

test('§29: the gateway hears through the agent how many tokens the cache of its model server holds', async () => {
  const node = startFakeNode({ speaks: 'llama.cpp', slots: 3, contextLength: 4_096 })
  cleanups.push(() => node.stop())
  const { url } = node
  const options = { runtimeId: newId('rt'), url, apiKey: null, times: runtimeTimes, onChange: () => {} }
  const runtime = new WatchedRuntime(options)
  cleanups.push(() => runtime.stop())
  await runtime.poll()
  expect(await heard([agentRuntime(runtime, false)])).toEqual([3 * 4_096])
})

test('§29: and how many requests it works on, whoever sent them', async () => {
  const answers: Record<string, unknown> = {
    '/v1/models': { object: 'list', data: [{ id: 'm', object: 'model', owned_by: 'vllm' }] },
    '/health': {},
  }
  const metrics = 'vllm:num_requests_running{engine="0"} 9.0\nvllm:num_requests_waiting{engine="0"} 2.0\n'
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ url }) => {
      const { pathname } = new URL(url)
      if (pathname === '/metrics') return new Response(metrics)
      const answer = answers[pathname]
      return answer === undefined ? new Response('', { status: 405 }) : Response.json(answer)
    },
  })
  cleanups.push(() => server.stop(true))
  const url = `http://127.0.0.1:${server.port}`
  const runtime = new WatchedRuntime({
    runtimeId: newId('rt'),
    url,
    apiKey: null,
    times: runtimeTimes,
    onChange: () => {},
  })
  cleanups.push(() => runtime.stop())
  await runtime.poll()
  const shown = agentRuntime(runtime, false)
  expect(await statusesHeard([shown])).toMatchObject([{ running: 9, queueDepth: 2, slotsTotal: null }])
  const { running: _, ...silent } = shown
  expect((await statusesHeard([silent]))[0]).not.toHaveProperty('running')
  expect(await statusesHeard([{ ...shown, running: -1 }])).toBe('malformed')
})

test('§37: and how much is in it, where the agent hears the events of its model server', async () => {
  const node = startFakeNode({ speaks: 'vllm', models: ['m'] })
  cleanups.push(() => node.stop())
  const published = new KvServer('vllm', 8)
  cleanups.push(() => published.stop())
  const { url } = node
  const kvEvents = [published.endpoints]
  const options = { runtimeId: newId('rt'), url, apiKey: null, times: runtimeTimes, onChange: () => {}, kvEvents }
  const runtime = new WatchedRuntime(options)
  cleanups.push(() => runtime.stop())
  await runtime.poll()
  const held = async () => {
    const statuses = await statusesHeard([agentRuntime(runtime, false)])
    return typeof statuses === 'string' ? statuses : statuses[0]?.models[0]?.cacheHeld
  }
  await waitUntil(
    'an empty cache to be known',
    () => runtime.cacheHeld('m') !== undefined && published.subscribers === 1,
  )
  published.read([1n, 2n, 3n])
  await waitUntil('it to be read', () => runtime.cacheHeld('m')?.tokens === 3 * published.blockTokens)
  expect(await held()).toEqual({ tokens: 48, full: false })
  published.read([4n, 5n, 6n, 7n, 8n, 9n])
  await waitUntil('it to be full', () => runtime.cacheHeld('m')?.full === true)
  expect(await held()).toEqual({ tokens: 128, full: true })
  const [model] = agentRuntime(runtime, false).models
  for (const cache_held_tokens of [-1, 1.5, cacheTokensMax + 1, '9', null]) {
    const said = { ...agentRuntime(runtime, false), models: [{ ...model, cache_held_tokens }] } as AgentRuntime
    expect([cache_held_tokens, await statusesHeard([said])]).toEqual([cache_held_tokens, 'malformed'])
  }
  published.cut()
  await waitUntil('it to be unknown', () => runtime.cacheHeld('m') === undefined)
  expect(await held()).toBeUndefined()
})

test('§22: an agent that knows no size says none, and one that says an impossible one is not believed', async () => {
  const model = { id: 'm', modality: 'chat' as const, ready: true, loaded: true, context_length: null }
  const shown = (more: object): AgentRuntime => ({
    runtime_id: newId('rt'),
    kind: 'vllm',
    state: 'ready',
    models: [{ ...model, ...more }],
    slots_total: null,
    slots_free: null,
    queue_depth: null,
  })
  expect(await heard([shown({})])).toEqual([undefined])
  expect(await heard([shown({ cache_tokens: cacheTokensMax })])).toEqual([cacheTokensMax])
  for (const cache_tokens of [0, -1, 1.5, cacheTokensMax + 1, '9', null])
    expect([cache_tokens, await heard([shown({ cache_tokens })])]).toEqual([cache_tokens, 'malformed'])
})
