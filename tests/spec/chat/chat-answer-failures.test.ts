import { afterEach, describe, expect, test } from 'bun:test'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeUsage, type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { leak } from '../../support/pools/stream-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway({ env: { SVC_FAILOVER_ROUTES_MAX: '2' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
await gateway.node(node.url, { customerId: customer.customerId })

afterEach(() => node.answer(null))

const choice = { index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }
const completion = () => ({ id: 'x', model: leak, system_fingerprint: leak, choices: [choice], usage: nodeUsage })
const ask = (body: object = {}) =>
  gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...body })

describe('§3: no answer at all', () => {
  const failed = { status: 502, code: 'upstream_error', retry: true }
  const cases: readonly (readonly [string, (call: ScriptedCall) => void])[] = [
    ['no JSON', (call) => call.respond(200, `<html>${leak}`)],
    ['half a body', (call) => call.respond(200, JSON.stringify(completion()).slice(0, -5))],
    ['an error under 200', (call) => call.respond(200, { error: { message: leak } })],
    ['an error of another shape', (call) => call.respond(200, { object: 'error', message: leak })],
    ['no choices', (call) => call.respond(200, { ...completion(), choices: [] })],
    ['a choice without a message', (call) => call.respond(200, { choices: [{ index: 0, text: leak }] })],
    ['500', (call) => call.respond(500, { error: { message: leak } })],
    ['404', (call) => call.respond(404, { error: { message: leak } })],
    ['401', (call) => call.respond(401, { error: { message: leak } })],
    ['a redirect, which is not followed', (call) => call.respond(302, '', { location: `${node.url}/v1/models` })],
    ['204', (call) => call.respond(204, '')],
    ['a reset', (call) => call.cut('reset')],
    [
      'a body cut off',
      (call) => {
        call.open({ 'content-type': 'application/json' })
        void call.raw(`{"choices":[`).then(() => call.cut('fin'))
      },
    ],
    ['more than 16 MiB', (call) => call.respond(200, 'x'.repeat(17 * 1024 * 1024))],
  ]
  test.each(cases.map((row) => [...row] as const))('%s', async (_name, script) => {
    node.answer(script)
    const refusal = await expectRefusal(await ask(), failed, leak)
    expect(refusal.param).toBeNull()
  })

  test('§5: an answer that never ends is left behind 16 MiB, and its node hears of it', async () => {
    const heard = Promise.withResolvers<void>()
    node.answer(async (call) => {
      let gone = false
      void call.gone.then(() => {
        gone = true
        heard.resolve()
      })
      call.open({ 'content-type': 'application/json' })
      while (!gone) await call.raw(' '.repeat(256 * 1024))
    })
    await expectRefusal(await ask(), failed, leak)
    await heard.promise
  })

  test.each([400, 413, 422])('%i of the node: the request is refused, its words are not told', async (status) => {
    node.answer((call) => call.respond(status, { error: { message: leak } }))
    const refusal = await expectRefusal(await ask(), { status: 400, code: 'invalid_request', retry: false }, leak)
    expect(refusal.message).toBe('The node refused the request.')
  })

  test.each([
    ['7', '7'],
    ['9999', '120'],
    ['Wed, 21 Oct 2037 07:28:00 GMT', '1'],
    [null, '1'],
  ])('429 of the node with Retry-After %p: ours is %s', async (given, told) => {
    node.answer((call) => call.respond(429, {}, given === null ? {} : { 'retry-after': given }))
    const expected = { status: 429, code: 'capacity_exhausted', retry: true }
    const { headers } = await expectRefusal(await ask(), expected, leak)
    expect(headers.get('retry-after')).toBe(told)
  })

  // An agent whose model server has crashed says in how many seconds it starts it again.
  test.each([
    [503, '7', '7'],
    [503, '9999', '120'],
    [503, null, null],
    [500, '7', null],
  ])('%i of the node with Retry-After %p: ours is %p', async (status, given, told) => {
    node.answer((call) => call.respond(status, {}, given === null ? {} : { 'retry-after': given }))
    const { headers } = await expectRefusal(await ask(), failed, leak)
    expect(headers.get('retry-after')).toBe(told)
  })
})

describe('§5: failover before the first byte', () => {
  test('at most two other routes, each once; the answer is the one that came', async () => {
    const others = [
      startScriptedNode('wide'),
      startScriptedNode('wide'),
      startScriptedNode('wide'),
      startScriptedNode('wide'),
    ]
    try {
      const ids = await Promise.all(others.map(({ url }) => gateway.node(url, { customerId: customer.customerId })))
      expect(new Set(ids).size).toBe(4)
      const seen = new Set<string>()
      for (const other of others) {
        other.answer((call) => {
          seen.add(call.headers['x-svc-request-id'] ?? '')
          call.respond(500, {})
        })
      }
      const refusal = await expectRefusal(
        await ask({ model: 'wide' }),
        { status: 502, code: 'upstream_error', retry: true },
        leak,
      )
      expect(others.map(({ calls }) => calls).sort()).toEqual([0, 1, 1, 1])
      // Every call has an id of its own, the first one that of the request.
      expect(seen.size).toBe(3)
      expect(seen.has(refusal.svc.request_id)).toBe(true)
      let failures = 2
      for (const other of others) {
        other.answer((call) => (failures-- > 0 ? call.respond(500, {}) : call.respond(200, completion())))
      }
      const response = await ask({ model: 'wide' })
      expect(response.status).toBe(200)
    } finally {
      for (const other of others) other.stop()
    }
  })
})
