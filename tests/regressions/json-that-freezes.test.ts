import { afterEach, describe, expect, test } from 'bun:test'
import { newId } from '../../src/ids.ts'
import { matchKey } from '../../src/machines/mixture/strategies/match-key.ts'
import { expectRefusal } from '../support/clients/chat-refusal.ts'
import { readStream } from '../support/clients/event-stream.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { enrollmentToken, nodeOf, untilState } from '../support/nodes/agents.ts'
import { agentRuntime, startScriptedAgent } from '../support/nodes/scripted-agent.ts'
import { nodeChunk, nodeUsage, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'

/**
 * Symptom: 80 kB of `[` froze the process for 15 s, from a node in an answer or from a client in a body; 4 MB of it in the
 * answer to a poll for 2 s, without any customer; a body with 600,000 keys was taken.
 * Cause: foreign JSON was parsed, walked and written again however deep and wide it was.
 * Fix: one scanner before every parse of foreign text, with bounds of depth and width (`src/protocol/json/json-scan.ts`).
 */
const levels = 5_000
const deep = '['.repeat(levels) + ']'.repeat(levels)

const gateway = await fixture(startTestGateway({ env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

afterEach(() => node.answer(null))

const chat = (raw: string) => gateway.chat(customer.key, {}, { body: raw })
const ask = (more: object = {}) =>
  gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more })
const wide = (members: number) => Array.from({ length: members }, (_, at) => `"k${at}":0`).join(',')
const failed = { status: 502, code: 'upstream_error', retry: true, param: null }

describe('bodies of clients: refused before a node hears of them', () => {
  const body = (content: string) => `{"model":"m","messages":[{"role":"user","content":"hi"}],"x":${content}}`
  const messages = `[${Array(20_001).fill('{"role":"user","content":""}').join(',')}]`
  test.each([
    ['129 levels', body('['.repeat(128) + ']'.repeat(128)), 'invalid_json'],
    ['brackets without end', '['.repeat(7_800_000), 'invalid_json'],
    ['10,001 members', body(`{${wide(10_001)}}`), 'invalid_json'],
    ['100,001 items', body(`[${Array(100_001).fill(0).join(',')}]`), 'invalid_json'],
    [
      '600,000 members in all',
      body(
        `[${Array(67)
          .fill(`{${wide(9_000)}}`)
          .join(',')}]`,
      ),
      'invalid_json',
    ],
    ['20,001 messages', `{"model":"m","messages":${messages}}`, 'invalid_request'],
    ['a key twice', body('1').replace('{', '{"model":"other",'), 'invalid_json'],
  ] as const)('%s', async (_name, raw, code) => {
    await expectRefusal(await chat(raw), { status: 400, code, retry: false }, 'no-secret')
    expect(node.calls).toBe(0)
  })

  test('128 levels, 10,000 members and 20,000 messages are taken', async () => {
    node.answer((call) =>
      call.respond(200, { choices: [{ index: 0, message: { role: 'assistant', content: 'x' } }], usage: nodeUsage }),
    )
    const most = [
      body('['.repeat(127) + ']'.repeat(127)),
      body(`{${wide(10_000)}}`),
      `{"model":"m","messages":${messages.replace('{"role":"user","content":""},', '')}}`,
    ]
    for (const raw of most) expect((await chat(raw)).status).toBe(200)
  })

  test('credits, purge, enrolment and private jobs', async () => {
    const admin = { 'x-svc-admin-token': gateway.tokens.admin }
    const owner = { 'x-svc-customer-id': customer.customerId, 'x-svc-customer-token': customer.customerToken }
    for (const [path, headers] of [
      [`/v1/admin/customers/${customer.customerId}/credits`, admin],
      ['/v1/admin/retention/audit-events/purge', admin],
      ['/v1/node-agent/enroll', {}],
      ['/v1/api/private-inference/jobs', owner],
    ] as const) {
      for (const raw of ['['.repeat(129) + ']'.repeat(129), '{"reason":"a","reas\\u006fn":"b"}']) {
        const response = await fetch(gateway.url + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: raw,
        })
        const { code, detail } = (await response.json()) as { code: string; detail: string }
        expect([path, response.status, code]).toEqual([path, 400, 'invalid_json'])
        expect(detail).toBe(
          raw.startsWith('[') ? 'The body nests deeper than 128 levels' : 'The key reason comes twice in one object',
        )
      }
    }
  })
})

describe('answers of nodes: a failure of the node', () => {
  test('a whole answer', async () => {
    for (const message of [
      `{"role":"assistant","content":${deep}}`,
      `{"role":"assistant","content":"",${wide(10_001)}}`,
    ]) {
      node.answer((call) => call.respond(200, `{"choices":[{"index":0,"message":${message}}]}`))
      await expectRefusal(await ask(), failed, 'no-secret')
    }
  })

  test('a chunk is a malformed line: the others pass', async () => {
    node.answer(async (call) => {
      call.open()
      await call.event(nodeChunk({ content: 'a' }))
      await call.event(`{"choices":[{"index":0,"delta":{"content":"lost","x":${deep}}}]}`)
      await call.event(nodeChunk({ content: 'b' }))
      await call.event(nodeChunk({}, 'stop', { usage: nodeUsage }))
      await call.raw('data: [DONE]\n\n')
      call.end()
    })
    const { text, content } = await readStream(await ask({ stream: true }))
    expect(content).toBe('ab')
    expect(text).not.toContain('lost')
  })

  test('what a model says is text, also where a vote reads JSON in it', () => {
    const key = matchKey({ role: 'assistant', content: `{"a":${deep}}` })
    expect(key).toBe('S:a')
  })
})

test('a poll that answers more than 1 MiB, or deeper than 128 levels, has failed', async () => {
  let models = '[{"id":"polled"}]'
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) =>
      request.url.endsWith('/v1/models')
        ? new Response(`{"object":"list","data":${models}}`, { headers: { 'content-type': 'application/json' } })
        : new Response('{}', { status: 404 }),
  })
  try {
    const nodeId = await gateway.node(server.url.href, { customerId: customer.customerId })
    for (const bad of [`[{"id":"polled","x":${deep}}]`, `[{"id":"polled","x":"${'x'.repeat(1024 * 1024)}"}]`]) {
      models = bad
      await waitFor('the failed polls', async () => (await nodeOf(gateway, nodeId)).state !== 'ready')
      models = '[{"id":"polled"}]'
      await untilState(gateway, nodeId, 'ready')
    }
  } finally {
    await server.stop(true)
  }
})

test("an agent's status that is too deep is malformed", async () => {
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
  const runtimes = [agentRuntime(newId('rt'), ['agent-model'])]
  await using agent = await scoped(startScriptedAgent(gateway.url, token, runtimes))
  await untilState(gateway, agent.nodeId, 'ready')
  agent.answer((signed) => new Response(`{"more":${deep},${JSON.stringify(signed({ runtimes })).slice(1)}`))
  await waitFor('the failed polls', async () => (await nodeOf(gateway, agent.nodeId)).last_error?.code === 'malformed')
})
