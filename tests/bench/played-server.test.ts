import { expect, test } from 'bun:test'
import { playedServers } from '../../bench/played-server.ts'
import { startSimulatedNode } from '../../bench/simulated-node.ts'
import { createRuntimeProbe } from '../../src/polling/runtime-probe.ts'
import { runtimeModules } from '../../src/runtimes/registry.ts'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'
import { scoped } from '../support/run/fixture.ts'

const machine = { slots: 2, prefill: 1_000, decode: 1_000, cacheTokens: 12_800, speed: 1_000 }
/** What each tells of its load and its cache, as real ones of its kind do. */
const told: Readonly<Record<(typeof playedServers)[number], object>> = {
  'llama.cpp': { slotsTotal: 2, slotsFree: 2, cacheTokens: 12_800 },
  vllm: { running: 0, queueDepth: 0, cacheTokens: 12_800 },
  sglang: { running: 0, queueDepth: 0, cacheTokens: 12_800 },
  ollama: {},
  lmstudio: {},
}

for (const plays of playedServers) {
  test(`a simulated node that plays ${plays} is known as one, tells what such a server tells, and answers`, async () => {
    const model = `other/${plays}`
    await using node = await scoped(startSimulatedNode({ ...machine, plays, model }))
    await using transport = await scoped(
      createDirectTransport({ url: node.url, apiKey: null, connectTimeoutMs: 5_000 }),
    )
    const probe = createRuntimeProbe(transport, runtimeModules)
    const result = await probe((work) => work(new AbortController().signal))
    const status = result.kind === 'answered' ? result.reports[0]?.status : undefined
    expect(status).toMatchObject({ kind: plays, state: 'ready', models: [{ id: model, ready: true, loaded: true }] })
    const { slotsTotal, slotsFree, running, queueDepth, models = [] } = status ?? {}
    const said = { slotsTotal, slotsFree, running, queueDepth, cacheTokens: models[0]?.cacheTokens }
    expect(Object.fromEntries(Object.entries(said).filter(([, value]) => value != null))).toEqual({ ...told[plays] })
    const answer = await fetch(`${node.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model, stream: true, max_tokens: 2, messages: [{ role: 'user', content: 'Hello!' }] }),
    })
    const text = await answer.text()
    expect(text).toContain('data: [DONE]')
    expect(text.includes('cached_tokens')).toBe(plays === 'llama.cpp')
  })
}
