import { expect, test } from 'bun:test'
import type { FakeNode } from '../../src/fake-node/fake-node.ts'
import { detectRuntime } from '../../src/runtimes/registry.ts'
import { nodeAt, withFakeNodes } from '../support/nodes/fake-nodes.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const get = (node: FakeNode) => (path: string) => fetch(`${node.url}${path}`)

function chat(node: FakeNode, stream: boolean, signal?: AbortSignal): Promise<Response> {
  const body = JSON.stringify({ model: 'fake-model', messages: [{ role: 'user', content: 'hi' }], stream })
  return fetch(`${node.url}/v1/chat/completions`, { method: 'POST', body, ...(signal ? { signal } : {}) })
}

test.each(['openai', 'vllm', 'llama.cpp'] as const)('§8: it can be probed as %s', (speaks) =>
  withFakeNodes(1, { speaks, slots: 2, models: ['a', 'b'], contextLength: 4096 }, async (nodes) => {
    const node = nodeAt(nodes, 0)
    const module = await detectRuntime(get(node))
    expect(module?.kind).toBe(speaks)
    const status = await module?.probe(get(node))
    expect(status?.models.map(({ id, contextLength, ready }) => [id, contextLength, ready])).toEqual([
      ['a', 4096, true],
      ['b', 4096, true],
    ])
    expect([status?.slotsTotal, status?.slotsFree]).toEqual(speaks === 'llama.cpp' ? [2, 2] : [null, null])
    node.setModels(['b'])
    expect((await module?.probe(get(node)))?.models.map(({ id }) => id)).toEqual(['b'])
    node.setFaults({ kind: 'unhealthyOnly' })
    expect((await module?.probe(get(node)))?.models).toEqual([])
  }),
)

test('§8: a llama.cpp with all slots taken is ready all the same; a request under way takes one', () =>
  withFakeNodes(1, { speaks: 'llama.cpp', slots: 2, faults: [{ kind: 'hang' }] }, async (nodes) => {
    const node = nodeAt(nodes, 0)
    const module = await detectRuntime(get(node))
    const leaving = new AbortController()
    const arrived = node.nextRequest()
    const held = chat(node, false, leaving.signal).catch(() => null)
    await arrived
    expect(await module?.probe(get(node))).toMatchObject({ state: 'ready', slotsTotal: 2, slotsFree: 1 })
    leaving.abort()
    await held
    await node.idle()
    node.setFaults({ kind: 'slotsFull' })
    expect(await module?.probe(get(node))).toMatchObject({ state: 'ready', slotsTotal: 2, slotsFree: 0 })
  }))

test('flapping is unhealthy for one period and healthy for the next', () =>
  withFakeNodes(1, {}, async (nodes) => {
    const node = nodeAt(nodes, 0)
    node.setFaults({ kind: 'flapping', periodMs: 700 })
    const seen: number[] = []
    await waitUntil('four periods', async () => {
      const { status } = await fetch(`${node.url}/health`)
      if (status !== seen.at(-1)) seen.push(status)
      return seen.length === 4
    })
    expect(seen).toEqual([503, 200, 503, 200])
  }))

test('stall goes silent on an open connection, and stopping the node ends what hangs', () =>
  withFakeNodes(1, { faults: [{ kind: 'stall', afterChunks: 2 }] }, async (nodes) => {
    const node = nodeAt(nodes, 0)
    const response = await chat(node, true)
    const reader = response.body?.getReader()
    let text = ''
    while (text.split('\n\n').length < 4) text += new TextDecoder().decode((await reader?.read())?.value)
    expect(text.split('\n\n').length).toBe(4)
    expect(node.stats()).toMatchObject({ openStreams: 1, finishedRequests: 0 })
    node.stop()
    await expect(reader?.read()).rejects.toThrow()
    await node.idle()
    expect(node.requests[0]?.outcome).toBe('cut')
  }))

test('a node that drains: keepOpen refuses the next connection and lets the answer under way end', () =>
  withFakeNodes(1, { answer: { chunks: 4, intervalMs: 10 } }, async (nodes) => {
    const node = nodeAt(nodes, 0)
    const response = await chat(node, true)
    node.setFaults({ kind: 'refuse', keepOpen: true })
    expect((await response.text()).endsWith('data: [DONE]\n\n')).toBe(true)
    await expect(fetch(`${node.url}/health`)).rejects.toThrow()
    expect(node.requests[0]?.outcome).toBe('finished')
  }))

test('§5: what real servers leak is on the body, the choices and every chunk', () =>
  withFakeNodes(1, { answer: { leak: true, usageIn: 'finishChunk', usageUnasked: true } }, async (nodes) => {
    const node = nodeAt(nodes, 0)
    const text = await (await chat(node, true)).text()
    const chunks = text.split('\n\n').filter((line) => line.startsWith('data: {'))
    expect(chunks.every((line) => line.includes('fake-leak'))).toBe(true)
    expect(chunks.at(-1)).toContain('"usage"')
    const body = await (await chat(node, false)).json()
    expect(body).toMatchObject({ model: '/srv/fake-leak/models/weights.gguf', choices: [{ stop_reason: 'fake-leak' }] })
  }))

test('JSON mode echoes, max_tokens cuts, the last text can stand in the finish chunk', () =>
  withFakeNodes(1, { answer: { chunks: 3, textInFinish: true, roleChunk: false } }, async (nodes) => {
    const node = nodeAt(nodes, 0)
    const post = async (extra: object) => {
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'say "x"' }], ...extra })
      return (await fetch(`${node.url}/v1/chat/completions`, { method: 'POST', body })).text()
    }
    const json = JSON.parse(await post({ response_format: { type: 'json_object' } }))
    expect(JSON.parse(json.choices[0].message.content)).toEqual({ echo: 'say "x"' })
    expect(JSON.parse(await post({ max_tokens: 2 })).choices[0]).toMatchObject({
      finish_reason: 'length',
      message: { content: 'a-0 a-1 ' },
    })
    const deltas = (await post({ stream: true })).split('\n\n').filter((line) => line.startsWith('data: {'))
    expect(deltas.map((line) => JSON.parse(line.slice(6)).choices[0])).toMatchObject([
      { delta: { content: 'a-0 ' }, finish_reason: null },
      { delta: { content: 'a-1 ' }, finish_reason: null },
      { delta: { content: 'a-2 ' }, finish_reason: 'stop' },
    ])
  }))

test('a wrong key is refused, two requests on one connection share its id', () =>
  withFakeNodes(1, { apiKey: 'right' }, async (nodes) => {
    const node = nodeAt(nodes, 0)
    const post = async (key: string) => {
      const body = JSON.stringify({ model: 'm', messages: [] })
      const headers = { authorization: `Bearer ${key}` }
      const response = await fetch(`${node.url}/v1/chat/completions`, { method: 'POST', body, headers })
      await response.text()
      return response.status
    }
    expect([await post('wrong'), await post('right')]).toEqual([401, 200])
    expect(node.requests[0]?.connectionId).toBe(node.requests[1]?.connectionId ?? Number.NaN)
  }))
