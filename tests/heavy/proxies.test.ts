import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { proxyKinds, type ReverseProxy, startProxy, throughProxy } from '../support/gateways/proxies.ts'
import { nodeChunk, nodeUsage, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'

/** A stream without an end would wait for ever. */
const withinMs = 30_000

let gateway: TestGateway
let writer: ScriptedNode
let listener: ScriptedNode
let customer: TestCustomer
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_TRUSTED_PROXIES: '127.0.0.1' } })
  customer = await gateway.customer()
  writer = startScriptedNode('m')
  listener = startScriptedNode('whisper-m')
  for (const { url } of [writer, listener]) await gateway.node(url, { customerId: customer.customerId })
})
afterAll(async () => {
  writer.stop()
  listener.stop()
  await gateway.stop()
})

function post(proxy: ReverseProxy, path: string, init: RequestInit): Promise<Response> {
  const headers = { authorization: `Bearer ${customer.key}`, ...(init.headers as Record<string, string>) }
  return throughProxy(proxy.url + path, { method: 'POST', signal: AbortSignal.timeout(withinMs), ...init, headers })
}

function form(bytes: number): FormData {
  const made = new FormData()
  made.set('model', 'whisper-m')
  made.set('file', new Blob([new Uint8Array(bytes)]), 'a.wav')
  return made
}

/** A stream that is read as far as a text in it. */
class Reading {
  private heard = ''
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>
  private readonly decoder = new TextDecoder()

  constructor({ body }: Response) {
    if (body === null) throw new Error('no body')
    this.reader = body.getReader()
  }

  async until(text: string): Promise<void> {
    while (!this.heard.includes(text)) {
      const { done, value } = await this.reader.read()
      if (done) throw new Error(`ended before ${text}`)
      this.heard += this.decoder.decode(value, { stream: true })
    }
  }
}

const mib = 1024 * 1024

for (const kind of proxyKinds) {
  const installed = Bun.which(kind) !== null
  if (!installed) console.log(`${kind} is not installed: its configuration is not tried`)
  describe.skipIf(!installed)(`ops/: ${kind} in front of the gateway`, () => {
    let proxy: ReverseProxy
    beforeAll(async () => {
      proxy = await startProxy(kind, gateway.url)
    })
    afterAll(() => proxy.stop())

    const chat = (stream: boolean, signal?: AbortSignal) =>
      post(proxy, '/v1/chat/completions', {
        body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'hello' }] }),
        headers: { 'content-type': 'application/json' },
        ...(signal === undefined ? {} : { signal }),
      })

    test('each chunk reaches the client before the next one is written', async () => {
      const answered = chat(true)
      const call = await writer.next()
      call.open()
      const texts = ['one', 'two', 'three']
      await call.event(nodeChunk({ role: 'assistant', content: texts[0] }))
      const stream = new Reading(await answered)
      for (const [at, text] of texts.entries()) {
        await stream.until(`"${text}"`)
        const next = texts[at + 1]
        if (next !== undefined) await call.event(nodeChunk({ content: next }))
      }
      await call.event(nodeChunk({}, 'stop', { usage: nodeUsage }))
      await call.event('[DONE]')
      call.end()
      await stream.until('data: [DONE]')
    })

    test('a client that leaves is gone for the node as well', async () => {
      const leaving = new AbortController()
      const answered = chat(true, leaving.signal)
      const call = await writer.next()
      call.open()
      await call.event(nodeChunk({ role: 'assistant', content: 'one' }))
      await new Reading(await answered).until('"one"')
      leaving.abort()
      await call.gone
    })

    test('a whole answer and an error come as the gateway wrote them', async () => {
      const answered = chat(false)
      const call = await writer.next()
      expect(call.headers['x-svc-request-id']).toStartWith('req_')
      call.respond(200, {
        id: 'x',
        choices: [{ index: 0, message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' }],
        usage: nodeUsage,
      })
      expect(await (await answered).json()).toMatchObject({ choices: [{ message: { content: 'whole' } }] })
      const refused = await throughProxy(`${proxy.url}/v1/chat/completions`, { method: 'POST', body: '{}' })
      expect([refused.status, (await refused.json()).error?.code]).toEqual([401, 'missing_credentials'])
    })

    test('a form of almost 25 MiB gets through, and one that is larger hears the limit', async () => {
      const answered = post(proxy, '/v1/audio/transcriptions', { body: form(24 * mib) })
      const call = await listener.next()
      call.respond(200, { text: 'heard' })
      expect(await (await answered).json()).toMatchObject({ text: 'heard' })
      const refused = await post(proxy, '/v1/audio/transcriptions', { body: form(28 * mib) }).catch(() => null)
      // A proxy may cut the connection while the client still writes.
      expect([413, null]).toContain(refused?.status ?? null)
    })
  })
}
