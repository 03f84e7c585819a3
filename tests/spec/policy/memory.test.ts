import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { shownMetric } from '../../support/gateways/metric.ts'
import {
  nodeChunk,
  nodeUsage,
  type ScriptedCall,
  type ScriptedNode,
  startScriptedNode,
} from '../../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

/** The smallest that can be set: a share is 32 MiB, and all grants together are 96 MiB. A body counts twice, as the text it becomes. */
const memoryMebibytes = '128'
const MiB = 1024 * 1024
const json = { 'content-type': 'application/json' }

let node: ScriptedNode
let othersNode: ScriptedNode
const nodeIds: string[] = []
const gateway = await fixture(
  startTestGateway({
    env: { SVC_MEMORY_MB: memoryMebibytes, SVC_METRICS_PUBLIC: 'true', SVC_PROCESSES: '1' },
  }),
)
const customer = await gateway.customer()
const other = await gateway.customer()

beforeEach(async () => {
  node = startScriptedNode('m')
  othersNode = startScriptedNode('m')
  nodeIds.push(await gateway.node(node.url, { customerId: customer.customerId }))
  nodeIds.push(await gateway.node(othersNode.url, { customerId: other.customerId }))
})
afterEach(async () => {
  node.stop()
  othersNode.stop()
  // Their ports may be those of the next test's nodes.
  for (const nodeId of nodeIds.splice(0)) await gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`)
})

const body = (more: object = {}) => ({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more })
const ask = (init: RequestInit = {}, more: object = {}) => gateway.chat(customer.key, body(more), init)
/** A stream whose receipt commits to all of its text, which so is kept (§31). */
const streamOf = (signal?: AbortSignal) =>
  fetch(`${gateway.url}/v1/api/chat/completions`, {
    method: 'POST',
    headers: { ...json, authorization: `Bearer ${customer.key}`, 'x-svc-nonce': 'nonce-of-client-1' },
    body: JSON.stringify(body({ stream: true })),
    ...(signal === undefined ? {} : { signal }),
  })
const answerOf = (content: string) =>
  JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content } }], usage: nodeUsage })
const keptBytes = () => shownMetric(gateway, 'svc_memory_kept_bytes')
const counted = (kind: string) => shownMetric(gateway, 'svc_memory_refusals_total', `kind="${kind}"`)
const nothingKept = () => waitFor('the account to be empty', async () => (await keptBytes()) === 0)
const untilKept = (mebibytes: number) =>
  waitFor('the account to count', async () => (await keptBytes()) >= mebibytes * MiB)

interface Begun {
  readonly call: ScriptedCall
  readonly response: Promise<Response>
  /** Sends the rest of it. */
  finish(): Promise<void>
}

/** A whole answer of which the node has said the length and sent a part. */
async function beginAnswer(mebibytes: number, init: RequestInit = {}): Promise<Begun> {
  const before = await keptBytes()
  const text = answerOf('x'.repeat(mebibytes * MiB))
  const response = ask(init)
  response.catch(() => {})
  const call = await node.next()
  call.open({ ...json, 'content-length': String(text.length) })
  await call.raw(text.slice(0, MiB / 2))
  let gone = false
  void call.gone.then(() => {
    gone = true
  })
  await waitFor('the answer to count', async () => (await keptBytes()) !== before || gone)
  return {
    call,
    response,
    finish: async () => {
      await call.raw(text.slice(MiB / 2))
      call.end()
    },
  }
}

const memoryRefusal = { status: 429, code: 'rate_limited', retry: true, param: null }
async function expectMemoryRefusal(response: Response): Promise<void> {
  const { message, headers } = await expectRefusal(response, memoryRefusal, 'xxx')
  expect(message).toContain('32 MiB')
  expect(headers.get('ratelimit-policy')).toBe(`"memory";q=${32 * MiB};qu="content-bytes"`)
  expect(headers.get('ratelimit')).toBe(`"memory";r=0;t=${headers.get('retry-after')}`)
}

describe('§17: memory', () => {
  test('who fills its share gets 429 before a node is asked, another customer is served meanwhile, and it ends with the answer', async () => {
    const refused = await counted('refused')
    const large = await beginAnswer(15.9)
    await untilKept(31)
    const calls = node.calls
    await expectMemoryRefusal(await ask())
    expect(node.calls).toBe(calls)
    expect(await counted('refused')).toBe(refused + 1)
    othersNode.answer((call) => call.respond(200, answerOf('served')))
    const served = await gateway.chat(other.key, body())
    expect([served.status, await served.text()]).toEqual([200, expect.stringContaining('served')])
    await large.finish()
    const { choices } = (await (await large.response).json()) as {
      readonly choices: readonly { readonly message: { readonly content: string } }[]
    }
    expect(choices[0]?.message.content.length).toBe(Math.floor(15.9 * MiB))
    await nothingKept()
    node.answer((call) => call.respond(200, answerOf('again')))
    expect((await ask()).status).toBe(200)
  })

  test('an answer that grows beyond the share ends the largest of the same customer, which is told', async () => {
    const ended = await counted('ended')
    const largest = await beginAnswer(9)
    const middle = await beginAnswer(4)
    const last = await beginAnswer(5)
    await expectMemoryRefusal(await largest.response)
    await largest.call.gone
    expect(await counted('ended')).toBe(ended + 1)
    for (const { finish, response } of [middle, last]) {
      await finish()
      const { status } = await response
      expect(status).toBe(200)
      await (await response).text()
    }
    await nothingKept()
  })

  test('an answer that fits no more beside larger ones of its customer ends before its bytes have come', async () => {
    const first = await beginAnswer(10)
    const second = await beginAnswer(10)
    await expectMemoryRefusal(await second.response)
    await second.call.gone
    await first.finish()
    expect((await first.response).status).toBe(200)
    await (await first.response).text()
    await nothingKept()
  })

  test('an answer of which the node does not say the length counts as it comes', async () => {
    const response = ask()
    const call = await node.next()
    call.open(json)
    await call.raw(answerOf('x'.repeat(3 * MiB)).slice(0, 3 * MiB))
    await untilKept(6)
    call.cut('reset')
    expect((await response).status).toBe(502)
    await nothingKept()
  })

  test('a stream that has begun ends with the error event, and its node stops', async () => {
    const streamed = streamOf().then((response) => response.text())
    const call = await node.next()
    call.open()
    for (let at = 0; at < 11; at++) await call.event(nodeChunk({ content: 'x'.repeat(MiB) }))
    await untilKept(22)
    const whole = await beginAnswer(9)
    await call.gone
    const text = await streamed
    expect(text.slice(text.lastIndexOf('data: '))).toMatch(/^data: .*"error":.*32 MiB/)
    await whole.finish()
    expect((await whole.response).status).toBe(200)
    await (await whole.response).text()
    await nothingKept()
  })

  test('a node that serves less memory than its customer asks for has not failed: it is not ejected', async () => {
    for (let at = 0; at < 8; at++) {
      const first = await beginAnswer(10)
      const second = await beginAnswer(10)
      expect((await second.response).status).toBe(429)
      first.call.cut('fin')
      await (await first.response).text()
    }
    await nothingKept()
  })
})

describe('§17: what was counted is given back once, however it ends', () => {
  test('the client of a whole answer leaves', async () => {
    const left = new AbortController()
    const { call, response } = await beginAnswer(10, { signal: left.signal })
    left.abort()
    await call.gone
    await response.catch(() => {})
    await nothingKept()
  })

  test('the node fails in the middle', async () => {
    for (const how of ['reset', 'fin'] as const) {
      const { call, response } = await beginAnswer(10)
      call.cut(how)
      expect((await response).status).toBe(502)
      await nothingKept()
    }
  })

  test('a client that reads nothing of its answer counts until it is gone', async () => {
    node.answer((call) => call.respond(200, answerOf('x'.repeat(12 * MiB))))
    const { hostname, port } = new URL(gateway.url)
    const text = JSON.stringify(body())
    const socket = connect(Number(port), hostname)
    const heard = new Promise((resolve) => socket.once('readable', resolve))
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${customer.key}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    )
    await heard
    await untilKept(24)
    socket.destroy()
    await nothingKept()
  })

  test('the client of a stream leaves', async () => {
    const left = new AbortController()
    const response = streamOf(left.signal)
    const call = await node.next()
    call.open()
    for (let at = 0; at < 2; at++) await call.event(nodeChunk({ content: 'x'.repeat(MiB) }))
    await untilKept(2)
    const begun = await response
    left.abort()
    await call.gone
    await begun.text().catch(() => {})
    await nothingKept()
  })

  test('an answer that no client could take for one', async () => {
    node.answer((call) => call.respond(200, `{"choices":[],"x":"${'x'.repeat(MiB)}"}`))
    expect((await ask()).status).toBe(502)
    await nothingKept()
  })
})

test('§17: an answer that is put together from a stream counts, and is refused likewise', async () => {
  const owner = await gateway.customer()
  await using llama = await scoped(startScriptedNode('gathered', 'llama.cpp'))
  await gateway.node(llama.url, { customerId: owner.customerId })
  const response = gateway.chat(owner.key, { ...body(), model: 'gathered' })
  const call = await llama.next()
  call.open()
  for (let at = 0; at < 15; at++) await call.event(nodeChunk({ content: 'x'.repeat(MiB) }))
  await untilKept(30)
  await call.event(nodeChunk({ content: 'y'.repeat(0.99 * MiB) }))
  call.event(nodeChunk({ content: 'z'.repeat(MiB) })).catch(() => {})
  await expectMemoryRefusal(await response)
  await call.gone
  await nothingKept()
})
