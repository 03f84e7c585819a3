import { afterEach, expect, test } from 'bun:test'
import type { NodeStatus } from '../../src/protocol/wire/nodes/agent.ts'
import { EventStreamReader } from '../support/clients/event-stream.ts'
import { type LoneAgent, startLoneAgent } from '../support/nodes/lone-agent.ts'
import { nodeChunk, type ScriptedCall, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { statusHeaders } from '../support/nodes/status-headers.ts'
import { waitUntil } from '../support/run/wait-until.ts'

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

test('§1: an agent that ends says that nothing is ready, answers what still comes, then closes; what runs may end', async () => {
  const { agent, server, call, reader } = await withStream(10_000)
  const stopping = agent.stop()
  const status = await agent.call('GET', '/svc/v1/status', null, { headers: statusHeaders() })
  expect(status.headers.get('connection')).toBe('close')
  const { runtimes } = (await status.json()) as NodeStatus
  expect(runtimes.flatMap(({ models }) => models).some(({ ready }) => ready)).toBe(false)
  const asking = agent.call('POST', path, body)
  const late = await server.next()
  late.open()
  await late.event(nodeChunk({}, 'stop'))
  late.end()
  const answer = await asking
  expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close'])
  expect((await new EventStreamReader(answer).rest()).at(-1)).toBe('data: [DONE]')
  const reached = () =>
    fetch(`${agent.node.url}/healthz`, { keepalive: false }).then(
      () => true,
      () => false,
    )
  await waitUntil('the listener is closed', async () => !(await reached()))
  await call.event(nodeChunk({}, 'stop'))
  call.end()
  expect((await reader.rest()).at(-1)).toBe('data: [DONE]')
  await stopping
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
