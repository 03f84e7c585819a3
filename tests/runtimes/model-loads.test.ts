import { afterAll, expect, test } from 'bun:test'
import { type ModelWishName, tellRuntime } from '../../src/polling/tell-runtime.ts'
import type { RuntimeKind } from '../../src/protocol/wire/nodes/node.ts'
import { createDirectTransport } from '../../src/transport/http1/direct.ts'
import { waitLimitMs } from '../support/run/limits.ts'

type Asked = readonly [string, unknown]

/** A server that has these answers, by method and path, and 404 as the real ones do. */
function serve(answers: Readonly<Record<string, (body: Record<string, unknown>) => Response>>) {
  const asked: Asked[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const place = `${request.method} ${new URL(request.url).pathname}`
      const text = await request.text()
      const body = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
      asked.push([place, body])
      return answers[place]?.(body) ?? Response.json({ error: 'not found' }, { status: 404 })
    },
  })
  servers.push(server)
  const url = `http://127.0.0.1:${server.port}`
  const transport = createDirectTransport({ url, apiKey: null, connectTimeoutMs: waitLimitMs })
  const tell = (kind: RuntimeKind, wish: ModelWishName, id: string, modality?: 'embedding') =>
    tellRuntime(transport, kind, wish, { id, ...(modality === undefined ? {} : { modality }) })
  return { asked, tell }
}

const servers: { stop(force: boolean): unknown }[] = []
afterAll(() => {
  for (const server of servers) server.stop(true)
})

test('§30: Ollama loads by a request without a prompt, and lets go of what is to be kept for no time', async () => {
  const models = new Set(['llama3.1:8b', 'nomic-embed-text'])
  const { asked, tell } = serve({
    'POST /api/generate': ({ model, keep_alive }) => {
      if (!models.has(String(model))) return Response.json({ error: 'model not found' }, { status: 404 })
      // Only a model that generates can be loaded here; any can be let go.
      if (model === 'nomic-embed-text' && keep_alive !== 0) return Response.json({ error: 'no' }, { status: 400 })
      return Response.json({ model, response: '', done: true, done_reason: keep_alive === 0 ? 'unload' : 'load' })
    },
    'POST /api/embed': ({ model }) => Response.json({ model, embeddings: [] }),
  })
  expect(await tell('ollama', 'load', 'llama3.1:8b')).toBe(true)
  expect(await tell('ollama', 'unload', 'llama3.1:8b')).toBe(true)
  expect(await tell('ollama', 'load', 'nomic-embed-text', 'embedding')).toBe(true)
  expect(await tell('ollama', 'unload', 'nomic-embed-text', 'embedding')).toBe(true)
  expect(await tell('ollama', 'load', 'absent')).toBe(false)
  expect(asked.slice(0, 4)).toEqual([
    ['POST /api/generate', { model: 'llama3.1:8b' }],
    ['POST /api/generate', { model: 'llama3.1:8b', keep_alive: 0 }],
    ['POST /api/embed', { model: 'nomic-embed-text', input: [] }],
    ['POST /api/generate', { model: 'nomic-embed-text', keep_alive: 0 }],
  ])
})

test('§30: LM Studio loads by name and lets go of every instance', async () => {
  const { asked, tell } = serve({
    'POST /api/v1/models/load': ({ model }) =>
      Response.json({ type: 'llm', instance_id: model, load_time_seconds: 1, status: 'loaded' }),
    'GET /api/v1/models': () =>
      Response.json({
        models: [
          { key: 'other', type: 'llm', loaded_instances: [{ id: 'other' }] },
          { key: 'qwen/qwen3-8b', type: 'llm', loaded_instances: [{ id: 'qwen/qwen3-8b' }, { id: 'qwen/qwen3-8b:2' }] },
        ],
      }),
    'POST /api/v1/models/unload': ({ instance_id }) => Response.json({ instance_id }),
  })
  expect(await tell('lmstudio', 'load', 'qwen/qwen3-8b')).toBe(true)
  expect(await tell('lmstudio', 'unload', 'qwen/qwen3-8b')).toBe(true)
  expect(asked).toEqual([
    ['POST /api/v1/models/load', { model: 'qwen/qwen3-8b' }],
    ['GET /api/v1/models', {}],
    ['POST /api/v1/models/unload', { instance_id: 'qwen/qwen3-8b' }],
    ['POST /api/v1/models/unload', { instance_id: 'qwen/qwen3-8b:2' }],
  ])
  // Version 0.3 has no such interface.
  expect(await serve({}).tell('lmstudio', 'load', 'm')).toBe(false)
  expect(await serve({}).tell('lmstudio', 'unload', 'm')).toBe(false)
})

test('§30: the router of llama.cpp has two paths for it, a server of one model none', async () => {
  const { asked, tell } = serve({
    'POST /models/load': () => Response.json({ success: true }),
    'POST /models/unload': () => Response.json({ success: true }),
  })
  expect(await tell('llama.cpp', 'load', 'gemma')).toBe(true)
  expect(await tell('llama.cpp', 'unload', 'gemma')).toBe(true)
  expect(asked).toEqual([
    ['POST /models/load', { model: 'gemma' }],
    ['POST /models/unload', { model: 'gemma' }],
  ])
  expect(await serve({}).tell('llama.cpp', 'load', 'gemma')).toBe(false)
})

test('§39: a vLLM with sleep mode sleeps at level 1 and wakes up; one without it is told nothing', async () => {
  let sleeping = false
  const { asked, tell } = serve({
    'GET /is_sleeping': () => Response.json({ is_sleeping: sleeping }),
    'POST /sleep': () => {
      sleeping = true
      return new Response('')
    },
    'POST /wake_up': () => {
      sleeping = false
      return new Response('')
    },
  })
  expect(await tell('vllm', 'unload', 'm')).toBe(true)
  expect(sleeping).toBe(true)
  expect(await tell('vllm', 'load', 'm')).toBe(true)
  expect(sleeping).toBe(false)
  expect(asked.length).toBeGreaterThan(0)
  const without = serve({})
  expect(await without.tell('vllm', 'unload', 'm')).toBeNull()
  const refuses = serve({
    'GET /is_sleeping': () => Response.json({ is_sleeping: false }),
    'POST /sleep': () => new Response('', { status: 500 }),
  })
  expect(await refuses.tell('vllm', 'unload', 'm')).toBe(false)
})

test('§30: other kinds are asked nothing', async () => {
  const { asked, tell } = serve({})
  for (const kind of ['sglang', 'openai', 'other'] as const) expect(await tell(kind, 'load', 'm')).toBeNull()
  expect(asked).toEqual([])
})

test('§30: what a hostile server says of its instances is no path and no crash', async () => {
  for (const models of [null, 'x', [null], [{ key: 'm', loaded_instances: [{ id: { a: 1 } }, 7, null] }]]) {
    const { tell } = serve({ 'GET /api/v1/models': () => Response.json({ models }) })
    expect(typeof (await tell('lmstudio', 'unload', 'm'))).toBe('boolean')
  }
})
