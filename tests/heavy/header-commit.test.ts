import { afterAll, beforeAll, expect, test } from 'bun:test'
import { expectRefusal } from '../support/clients/chat-refusal.ts'
import { readStream } from '../support/clients/event-stream.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type ScriptedCall, startScriptedNode } from '../support/nodes/scripted-node.ts'

/** With the times as shipped; `tests/spec` has the same in a tenth of them. */
let gateway: TestGateway
let customer: TestCustomer
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } })
  customer = await gateway.customer()
})
afterAll(() => gateway.stop())

const ways: readonly (readonly [name: string, fail: (call: ScriptedCall) => void])[] = [
  ['HTTP 500', (call) => call.respond(500, {})],
  ['a reset', (call) => call.cut('reset')],
]
const cases = ways.flatMap(([way, fail]) => [1, 7, 9].map((seconds) => [way, seconds, fail] as const))

test.concurrent.each(cases)('§6: %s after %i s', async (way, seconds, fail) => {
  const model = `${way.replaceAll(' ', '-')}-${seconds}`
  const node = startScriptedNode(model)
  try {
    await gateway.node(node.url, { customerId: customer.customerId })
    node.answer(async (call) => {
      await Bun.sleep(seconds * 1_000)
      fail(call)
    })
    const began = performance.now()
    const response = await gateway.chat(customer.key, {
      model,
      stream: true,
      messages: [{ role: 'user', content: 'hi' }],
    })
    const waitedS = (performance.now() - began) / 1_000
    if (seconds < 8) {
      expect(Math.abs(waitedS - seconds)).toBeLessThan(0.5)
      await expectRefusal(response, { status: 502, code: 'upstream_error', retry: true }, node.url)
    } else {
      expect(Math.abs(waitedS - 8)).toBeLessThan(0.5)
      expect(response.status).toBe(200)
      const stream = await readStream(response)
      expect(stream.blocks[0]).toBe(': svc processing')
      expect([stream.last.error?.code, stream.done]).toEqual(['upstream_error', false])
    }
    expect(node.calls).toBe(1)
  } finally {
    node.stop()
  }
})
