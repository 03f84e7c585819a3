import { expect, test } from 'bun:test'
import { type RawExchange, rawExchange } from '../support/clients/raw-client.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { nodeChunk, nodeUsage, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitLimitMs } from '../support/run/limits.ts'

/*
 * Chat switched the idle time-out of its connection off before it knew who asks, and never on again: a client that sent
 * half a body, with a key or without one, kept its socket for ever. What follows an answer is in
 * tests/heavy/silent-clients.test.ts, since it takes 75 s.
 */

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })
const agent = await fixture(startLoneAgent())

/** Longer than a body may be awaited without a byte, with room for the steps of Bun's clock. */
const thinkMs = 16_000
const half = (url: string, method: string, path: string, headers: string, drip = '') =>
  rawExchange(
    url,
    `${method} ${path} HTTP/1.1\r\nHost: h\r\n${headers}\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{"a":`,
    { withinMs: waitLimitMs, ...(drip === '' ? {} : { drip: { text: drip, everyMs: 100 } }) },
  )

test('half a body is not waited for, whoever sends it, silent or in drips; an answer that takes longer is', async () => {
  const chat = '/v1/api/chat/completions'
  const bearer = `Authorization: Bearer ${customer.key}`
  const local = `Authorization: Bearer ${agent.localToken}`
  const admin = `X-SVC-Admin-Token: ${gateway.tokens.admin}`
  const customerHeaders = `X-SVC-Customer-Id: ${customer.customerId}\r\nX-SVC-Customer-Token: ${customer.customerToken}`
  const thinking = gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content: 'hi' }] })
  const call = await node.next()
  const answered = lasts(thinkMs).then(() => {
    const message = { role: 'assistant', content: 'at last' }
    call.respond(200, { ...nodeChunk({}), usage: nodeUsage, choices: [{ index: 0, message, finish_reason: 'stop' }] })
  })
  const refused: Record<string, RawExchange> = Object.fromEntries(
    await Promise.all(
      Object.entries({
        chat: half(gateway.url, 'POST', chat, bearer),
        'chat, in drips': half(gateway.url, 'POST', chat, bearer, 'x'),
        'a private job': half(gateway.url, 'POST', '/v1/api/private-inference/jobs', customerHeaders),
        administration: half(gateway.url, 'POST', '/v1/admin/customers', admin),
        'a private job, in drips': half(gateway.url, 'POST', '/v1/api/private-inference/jobs', customerHeaders, 'x'),
        enrolment: half(gateway.url, 'POST', '/v1/node-agent/enroll', 'X: y'),
        'the agent’s chat': half(agent.node.url, 'POST', '/v1/chat/completions', local),
        'the agent’s ranker, in drips': half(agent.node.url, 'POST', '/v1/rerank', local, 'x'),
      }).map(async ([name, exchange]) => [name, await exchange] as const),
    ),
  )
  for (const [name, { ended, text, ms }] of Object.entries(refused)) {
    // Bun's clock has steps of 4 s: 8 to 12 s.
    expect([name, ended, text, ms > 7_500]).toEqual([name, 'closed', '', true])
  }
  await answered
  expect((await thinking).status).toBe(200)
})
