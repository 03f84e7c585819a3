import { afterEach, beforeEach, expect, test } from 'bun:test'
import { postJson } from '../../support/clients/post-json.ts'
import { connectRawClient, type RawClient } from '../../support/clients/raw-client.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { shownMetric } from '../../support/gateways/metric.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'

const MiB = 1024 * 1024
/** What the sockets of this machine may hold on the ways of two calls, beside the 256 KiB of the gateway. */
const inFlightBytesMax = 48 * MiB
/** A piece that the kernel does not take within this is one that nobody reads. */
const heldMs = 1_500
const piece = `data: ${JSON.stringify({ choices: [{ index: 0, text: 'x'.repeat(60 * 1024), finish_reason: null }] })}\n\n`
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const finish = { choices: [{ index: 0, text: '', finish_reason: 'stop' }], usage }
const path = '/v1/completions'

let node: ScriptedNode
let client: RawClient | null = null
const gateway = await fixture(
  startTestGateway({
    env: { SVC_MEMORY_MB: '128', SVC_METRICS_PUBLIC: 'true', SVC_PROCESSES: '1', SVC_SLOW_CLIENT_TIMEOUT_MS: '4000' },
  }),
)
const customer = await gateway.customer()

beforeEach(async () => {
  node = startScriptedNode('m')
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterEach(() => {
  client?.leave()
  client = null
  node.stop()
})

/** Writes until the kernel takes no more; resolves with how much it took. */
async function fill(call: ScriptedCall): Promise<number> {
  let written = 0
  for (;;) {
    const taken = await Promise.race([call.raw(piece).then(() => true), lasts(heldMs).then(() => false)])
    written += piece.length
    if (!taken || written > 4 * inFlightBytesMax) return written
  }
}

async function connect(model = 'm'): Promise<readonly [RawClient, ScriptedCall, ScriptedCall]> {
  const calls = [node.next(), node.next()]
  client = await connectRawClient(gateway.url, customer.key, { model, prompt: ['a', 'b'], stream: true }, path)
  const [one, other] = (await Promise.all(calls)) as [ScriptedCall, ScriptedCall]
  one.open()
  other.open()
  return [client, one, other]
}

test('§6: a client that does not read holds all nodes of its stream back, and gets all once it reads', async () => {
  const [reader, one, other] = await connect()
  const written = (await Promise.all([fill(one), fill(other)])).reduce((sum, bytes) => sum + bytes, 0)
  expect(written).toBeLessThan(inFlightBytesMax)
  reader.read()
  for (const call of [one, other]) {
    await call.event(finish)
    call.end()
  }
  await waitFor('the end', () => reader.tail.includes('data: [DONE]'))
  expect(reader.received).toBeGreaterThan(written * 0.99)
})

test('§6: one that reads nothing for too long is cut off, and all nodes are let go', async () => {
  const [reader, one, other] = await connect()
  await Promise.all([fill(one), fill(other)])
  await Promise.all([one.gone, other.gone])
  reader.read()
  await reader.closed
  expect(reader.tail).not.toContain('[DONE]')
})

test('§17: whole answers that wait for the others count in the account of memory, and are given back', async () => {
  const calls: ScriptedCall[] = []
  const large = JSON.stringify({ choices: [{ index: 0, text: 'x'.repeat(6 * MiB), finish_reason: 'stop' }], usage })
  node.answer((call) => {
    calls.push(call)
    // The last is never answered: the others wait for it.
    if (call.body.prompt !== '5') call.respond(200, large)
  })
  const response = await postJson(gateway.url + path, customer.key, {
    model: 'm',
    prompt: ['0', '1', '2', '3', '4', '5'],
  })
  expect([response.status, ((await response.json()) as { error: { code: string } }).error.code]).toEqual([
    429,
    'rate_limited',
  ])
  await waitFor('the account to be empty', async () => (await shownMetric(gateway, 'svc_memory_kept_bytes')) === 0)
})

test.each([
  ['a stream', true, 'server_shutdown'],
  ['a whole answer', false, 'service_unavailable'],
] as const)(
  '§1: a gateway that stops ends all calls of %s, those that wait for a slot too',
  async (_, stream, told) => {
    const stopping = await startTestGateway({ env: { SVC_SHUTDOWN_GRACE_MS: '100', SVC_HEADER_COMMIT_MS: '100' } })
    const { customerId, key } = await stopping.customer()
    await using alone = await scoped(startScriptedNode('m', 'llama.cpp', 2))
    await stopping.node(alone.url, { customerId })
    const ask = (prompt: readonly string[]) => postJson(stopping.url + path, key, { model: 'm', prompt, stream })
    const calls = [alone.next(), alone.next()]
    const running = ask(['a', 'b', 'c'])
    const gone = (await Promise.all(calls)).map((call) => call.gone)
    const waiting = ask(['d', 'e'])
    await waitFor('a place in the line', async () => {
      const headers = { authorization: `Bearer ${stopping.tokens.viewer}` }
      const text = await (await fetch(`${stopping.url}/metrics`, { headers })).text()
      return text.includes('\nsvc_requests_queued 1\n')
    })
    if (stream) await Promise.all([running, waiting])
    await stopping.stop()
    for (const response of await Promise.all([running, waiting])) {
      expect(/"code":"(\w+)"/.exec(await response.text())?.[1]).toBe(told)
    }
    await Promise.all(gone)
    expect(alone.calls).toBe(2)
  },
)
