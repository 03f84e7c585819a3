import { afterEach, expect, test } from 'bun:test'
import { headers } from '../../src/brand.ts'
import { newNonce } from '../../src/protocol/signing/signatures.ts'
import type { NodeStatus } from '../../src/protocol/wire/nodes/agent.ts'
import { EventStreamReader } from '../support/clients/event-stream.ts'
import { type LoneAgent, startLoneAgent } from '../support/nodes/lone-agent.ts'
import { nodeChunk, type ScriptedCall, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'

const path = '/v1/chat/completions'
const body = { model: 'm', messages: [{ role: 'user', content: 'x' }], stream: true }
const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

interface Running {
  readonly agent: LoneAgent
  readonly server: ScriptedNode
  readonly call: ScriptedCall
  readonly reader: EventStreamReader
}

/** An agent with one stream under way, its first piece read. */
async function withStream(graceMs: number): Promise<Running> {
  const server = startScriptedNode('m')
  undo.push(() => server.stop())
  const agent = await startLoneAgent({ runtimes: [server.url], graceMs })
  undo.push(() => agent.remove())
  const asking = agent.call('POST', path, body)
  const call = await server.next()
  call.open()
  await call.event(nodeChunk({ role: 'assistant', content: 'Hi' }))
  const reader = new EventStreamReader(await asking)
  await reader.chunk()
  return { agent, server, call, reader }
}

test('§1: what runs may end: nothing new is taken, nothing is ready, and the stream comes to its end', async () => {
  const { agent, call, reader } = await withStream(10_000)
  const stopping = agent.stop()
  const refused = await agent.call('POST', path, body)
  expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
    503,
    'service_unavailable',
  ])
  const status = await agent.call('GET', '/svc/v1/status', null, { headers: { [headers.statusNonce]: newNonce() } })
  const { runtimes } = (await status.json()) as NodeStatus
  expect(runtimes.flatMap(({ models }) => models).some(({ ready }) => ready)).toBe(false)
  await call.event(nodeChunk({}, 'stop'))
  call.end()
  const rest = await reader.rest()
  expect(rest.at(-1)).toBe('data: [DONE]')
  await stopping
  expect(await fetch(`${agent.node.url}/healthz`).catch(() => 'refused')).toBe('refused')
})

test('§6: what does not end within the grace is cut with an error event, and the runtime hears of it', async () => {
  const { agent, call, reader } = await withStream(50)
  await agent.stop()
  const last = await reader.chunk()
  expect(last.error?.code).toBe('server_shutdown')
  expect(await reader.rest()).toEqual([])
  await call.gone
})

test('a second wish to stop waits for the first', async () => {
  const agent = await startLoneAgent()
  undo.push(() => agent.remove())
  const first = agent.stop()
  expect(agent.stop()).toBe(first)
  await first
})
