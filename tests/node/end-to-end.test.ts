import { afterAll, beforeEach, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { createLog } from '../../src/log.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { enrollmentToken, nodeOf, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { fixture } from '../support/run/fixture.ts'

let agent: TestAgent

const enrolled = async (runtimes: readonly string[]) => {
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const made = await startAgent({ gatewayUrl: gateway.url, token, runtimes })
  await untilState(gateway, made.nodeId, 'ready')
  return made
}

afterAll(async () => {
  await agent?.remove()
})
const gateway = await fixture(startTestGateway())
const server = await fixture(startFakeNode({ models: ['m-1'], answer: { chunks: 5 } }))
const customer = await gateway.customer()
agent = await enrolled([server.url])
const client = new OpenAI({ baseURL: `${gateway.url}/v1/api`, apiKey: customer.key, maxRetries: 0 })
beforeEach(() => server.clearFaults())

const model = 'm-1'
const messages = [{ role: 'user' as const, content: 'hello' }]
const text = 'fake-0 fake-1 fake-2 fake-3 fake-4 '
const path = (command: string) => `/v1/admin/nodes/${agent.nodeId}/${command}`
const refusal = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown as { readonly status?: number; readonly code?: string },
  )
  return [error?.status, error?.code]
}

test('§22: a machine that only dials out answers chats, and shows the identity that the agent shows', async () => {
  const answer = await client.chat.completions.create({ model, messages })
  expect(answer.choices[0]?.message.content).toBe(text)
  const node = await nodeOf(gateway, agent.nodeId)
  expect(node).toMatchObject({ kind: 'agent', transport: 'tunnel', state: 'ready', in_flight: 0 })
  expect(node.identity_fingerprint).toBe(agent.node.fingerprint)
  // The first poll came before the agent had dialled in, which is no failure of the node.
  expect(node.last_error).toBeNull()
  expect(node.runtimes.flatMap((runtime) => runtime.ranking_models)).toEqual(['lexical/bm25'])
  expect(node.runtimes.flatMap((runtime) => runtime.models.map(({ model: id }) => id))).toEqual([model])
  // The runtime's own server is spoken to by the agent alone, without the gateway's credentials.
  expect(server.requests.at(-1)?.headers).not.toHaveProperty('x-svc-router-signature')
})

test('§6: a stream comes chunk by chunk through the tunnel, with usage at the end', async () => {
  server.setFaults({ kind: 'stall', afterChunks: 3 })
  const abort = new AbortController()
  const stream = await client.chat.completions.create({ model, messages, stream: true }, { signal: abort.signal })
  let seen = ''
  // The node has stopped after its third piece: what is seen now was not held back for more.
  for await (const { choices } of stream) {
    seen += choices[0]?.delta.content ?? ''
    if (seen === 'fake-0 fake-1 fake-2 ') break
  }
  abort.abort()
  await server.idle()
  server.clearFaults()
  const whole = await client.chat.completions.create({
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  })
  let all = ''
  let tokens = 0
  for await (const chunk of whole) {
    all += chunk.choices[0]?.delta.content ?? ''
    tokens = chunk.usage?.completion_tokens ?? tokens
  }
  expect([all, tokens]).toEqual([text, 5])
})

test('§5: a client that leaves stops the model server behind the agent, before and after the first byte', async () => {
  for (const fault of [
    { kind: 'slowHeaders', ms: 60_000 },
    { kind: 'stall', afterChunks: 2 },
  ] as const) {
    server.setFaults(fault)
    const abort = new AbortController()
    const arrived = server.nextRequest()
    const left = server.nextAbort()
    const call = client.chat.completions
      .create({ model, messages, stream: true }, { signal: abort.signal })
      .then(async (stream) => {
        for await (const _ of stream);
      })
      .catch(() => 'left')
    await arrived
    abort.abort()
    expect((await left).outcome).toBe('aborted')
    await call
  }
  await waitFor('an idle node', async () => (await nodeOf(gateway, agent.nodeId)).in_flight === 0)
})

test('§23: a drained agent finishes what it has and takes nothing new until it is resumed', async () => {
  server.setFaults({ kind: 'slowFirstToken', ms: 300, times: 1 })
  const arrived = server.nextRequest()
  const running = client.chat.completions.create({ model, messages })
  await arrived
  await gateway.admin('POST', path('drain'))
  expect(await refusal(client.chat.completions.create({ model, messages }))).toEqual([503, 'no_route_available'])
  expect((await running).choices[0]?.message.content).toBe(text)
  await gateway.admin('POST', path('resume'))
  await untilState(gateway, agent.nodeId, 'ready')
  expect((await client.chat.completions.create({ model, messages })).choices[0]?.message.content).toBe(text)
})

test('§8: a closed tunnel makes the node stale at once, and a new one ready with one good poll', async () => {
  await agent.node.stop()
  const gone = await nodeOf(gateway, agent.nodeId)
  expect(['stale', 'live']).toContain(gone.state)
  await untilState(gateway, agent.nodeId, 'stale')
  expect(await refusal(client.chat.completions.create({ model, messages }))).toEqual([503, 'no_route_available'])
  agent = await agent.restart()
  await untilState(gateway, agent.nodeId, 'ready')
  expect((await nodeOf(gateway, agent.nodeId)).transport).toBe('tunnel')
  expect((await client.chat.completions.create({ model, messages })).choices[0]?.message.content).toBe(text)
})

test('§22: two model servers on one machine are two runtimes behind one tunnel', async () => {
  const beside = startFakeNode({ models: ['m-2'], name: 'other-', answer: { chunks: 1 } })
  const two = await enrolled([server.url, beside.url])
  await waitFor('both models', async () => {
    const { runtimes } = await nodeOf(gateway, two.nodeId)
    return runtimes.flatMap(({ models }) => models.filter(({ ready }) => ready)).length === 2
  })
  const answer = await client.chat.completions.create({ model: 'm-2', messages })
  expect(answer.choices[0]?.message.content).toBe('other-0 ')
  await two.remove()
  beside.stop()
})

test('§23: revoking cuts the tunnel and what runs in it at once, and the machine never comes back', async () => {
  const lone = startFakeNode({ models: ['lone'] })
  const condemned = await enrolled([lone.url])
  lone.setFaults({ kind: 'stall', afterChunks: 1 })
  const stream = await client.chat.completions.create({ model: 'lone', messages, stream: true })
  const left = lone.nextAbort()
  const reading = refusal(
    (async () => {
      for await (const _ of stream);
    })(),
  )
  await gateway.admin('POST', `/v1/admin/nodes/${condemned.nodeId}/revoke`)
  expect((await reading)[1]).toBe('node_lost')
  await left
  expect(await nodeOf(gateway, condemned.nodeId)).toMatchObject({ state: 'revoked', transport: null })
  expect((await refusal(client.chat.completions.create({ model: 'lone', messages })))[0]).toBe(404)
  // The same keys, dialling again: refused, however often.
  const lines: string[] = []
  const log = createLog('info', (line) => lines.push(line))
  await condemned.node.stop()
  const again = await condemned.restart({ log })
  await waitFor('two refused dials', () => {
    log.flush()
    return lines.join('').split('tunnel_not_opened').length > 2
  })
  expect(lines.join('')).toMatch(/tunnel_not_opened.*"code":"401"/)
  expect(lines.join('')).not.toContain('tunnel_opened')
  expect(await nodeOf(gateway, condemned.nodeId)).toMatchObject({ state: 'revoked', transport: null })
  await again.remove()
  lone.stop()
})
