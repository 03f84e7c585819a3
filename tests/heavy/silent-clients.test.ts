import { afterAll, beforeAll, expect, test } from 'bun:test'
import { rawExchange } from '../support/clients/raw-client.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type LoneAgent, startLoneAgent } from '../support/nodes/lone-agent.ts'
import { nodeChunk, nodeUsage, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'

/** The other half of tests/regressions/silent-clients.test.ts: what takes more than a minute. */

let gateway: TestGateway
let customer: TestCustomer
let agent: LoneAgent
let node: ScriptedNode
beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  node = startScriptedNode('m')
  await gateway.node(node.url, { customerId: customer.customerId })
  agent = await startLoneAgent({ runtimes: [node.url] })
})
afterAll(async () => {
  node.stop()
  await agent.remove()
  await gateway.stop()
})

const withinMs = 120_000
const usage = { usage: nodeUsage }

test('a connection whose client is silent after its answer is closed after 75 s, whatever the answer was', async () => {
  node.answer(async (call) => {
    const message = { role: 'assistant', content: 'hi' }
    if (call.body.stream !== true) {
      return call.respond(200, { ...nodeChunk({}), ...usage, choices: [{ index: 0, message, finish_reason: 'stop' }] })
    }
    call.open()
    await call.event(nodeChunk({ content: 'hi' }))
    await call.event(nodeChunk({}, 'stop', usage))
    await call.event('[DONE]')
    call.end()
  })
  const post = (url: string, path: string, authorization: string, body: object, more = 0) => {
    const text = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...body })
    return rawExchange(
      url,
      `POST ${path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${authorization}\r\nContent-Type: application/json\r\nContent-Length: ${text.length + more}\r\n\r\n${text}`,
      { withinMs },
    )
  }
  const chat = '/v1/api/chat/completions'
  const wrong = `${customer.key.slice(0, -1)}x`
  const answers = await Promise.all([
    post(gateway.url, chat, customer.key, {}),
    post(gateway.url, chat, customer.key, { stream: true }),
    post(gateway.url, chat, wrong, {}),
    post(gateway.url, chat, wrong, {}, 1_000),
    post(gateway.url, chat, customer.key, { model: 'unknown' }),
    rawExchange(gateway.url, 'GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n', { withinMs }),
    post(agent.node.url, '/v1/chat/completions', agent.localToken, {}),
    post(agent.node.url, '/v1/chat/completions', agent.localToken, { stream: true }),
    post(agent.node.url, '/v1/chat/completions', agent.localToken, { model: 'unknown' }),
  ])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 401, 401, 404, 200, 200, 200, 404])
  for (const { ended, ms } of answers) expect([ended, ms > 70_000, ms]).toEqual(['closed', true, ms])
})

test('a body that comes fast enough and never ends is answered with 400 after 30 s, and its connection is closed', async () => {
  const head = `POST /v1/api/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${customer.key}\r\nContent-Type: application/json\r\n`
  const fast = { withinMs, drip: { text: 'x'.repeat(10_000), everyMs: 250 } }
  const chunked = { withinMs, drip: { text: `2710\r\n${'x'.repeat(10_000)}\r\n`, everyMs: 250 } }
  const answers = await Promise.all([
    rawExchange(gateway.url, `${head}Content-Length: 8000000\r\n\r\n`, fast),
    rawExchange(gateway.url, `${head}Transfer-Encoding: chunked\r\n\r\n`, chunked),
  ])
  for (const { status, text, ended, ms } of answers) {
    expect([status, ended, ms > 29_500 && ms < 60_000]).toEqual([400, 'closed', true])
    expect(text).toContain('within 30 s')
  }
})
