import { afterEach, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { headers } from '../../../src/brand.ts'
import { openAnswer } from '../../../src/client/sealed/opened-answer.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newId } from '../../../src/ids.ts'
import { readNodeReceipt } from '../../../src/protocol/receipts/node-receipt.ts'
import { responseNonceHeader } from '../../../src/protocol/sealed/ehbp.ts'
import { emptyFrame, framed } from '../../../src/protocol/sealed/frames.ts'
import { padme } from '../../../src/protocol/sealed/padding.ts'
import { relayed, sealed, sealedKeysOf } from '../../support/clients/sealed-call.ts'
import { startLoneAgent } from '../../support/nodes/lone-agent.ts'
import { patientTimes } from '../../support/pools/sealed-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const messages = [{ role: 'user', content: 'hello there' }]
const chat = { model: 'm-1', messages }

const server = await fixture(startFakeNode({ models: ['m-1'], speaks: 'llama.cpp', slots: 3 }))
const agent = await fixture(
  startLoneAgent({
    runtimes: [server.url],
    runtimeTimes: patientTimes,
    sealedTimes: { keepAliveMs: 50, headMs: 50 },
  }),
)

afterEach(() => server.clearFaults())

const key = async () => {
  const [newest] = await sealedKeysOf(agent)
  if (newest === undefined) throw new Error('the agent publishes no key')
  return newest
}
const codeOf = async (response: Response) => [response.status, ((await response.json()) as { code?: string }).code]
const sealedCode = async (response: Response): Promise<unknown[]> => {
  const { error } = (await response.json()) as { readonly error: { readonly code: string; readonly param: string } }
  return [response.status, error.code, error.param]
}

describe('§38: the agent answers sealed', () => {
  test('a whole chat is opened, run, and sealed', async () => {
    const message = await sealed(await key(), chat)
    const response = await relayed(agent, message)
    expect(response.status).toBe(200)
    expect(response.headers.get(responseNonceHeader)).toMatch(/^[0-9a-f]{64}$/)
    const bytes = new Uint8Array(await response.clone().arrayBuffer())
    expect(Buffer.from(bytes).includes('choices')).toBe(false)
    const answer = (await openAnswer(response, message).json()) as Record<string, unknown>
    expect(answer).toMatchObject({ object: 'chat.completion', model: 'm-1', svc: { upstream_model: 'm-1' } })
  })

  test('a stream comes frame by frame and ends with [DONE]', async () => {
    const message = await sealed(await key(), { ...chat, stream: true }, 3)
    const response = await relayed(agent, message)
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    const text = await openAnswer(response, message).text()
    expect(text).toContain('chat.completion.chunk')
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  test('a silent runtime has empty frames sent in its place', async () => {
    server.setFaults({ kind: 'slowFirstToken', ms: 400 })
    const message = await sealed(await key(), { ...chat, stream: true })
    const response = await relayed(agent, message)
    const bytes = Buffer.from(await response.clone().arrayBuffer())
    expect(bytes.subarray(0, 8).equals(Buffer.alloc(8))).toBe(true)
    expect(await openAnswer(response, message).text()).toContain('[DONE]')
  })

  test('responses, messages and completions speak their own dialects', async () => {
    const asked = {
      '/responses': { model: 'm-1', input: 'hello', stream: true },
      '/messages': { model: 'm-1', max_tokens: 20, messages, stream: true },
    }
    for (const [path, body] of Object.entries(asked)) {
      const message = await sealed(await key(), body)
      const text = await openAnswer(await relayed(agent, message, { path }), message).text()
      expect(text).toContain(path === '/messages' ? 'event: message_stop' : 'event: response.completed')
    }
    const refused = await sealed(await key(), { model: 'm-1', messages: 3, max_tokens: 2 })
    const error = await openAnswer(await relayed(agent, refused, { path: '/messages' }), refused).json()
    expect(error).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
  })

  test('padding hides the length of a whole answer and of each event', async () => {
    const message = await sealed(await key(), { ...chat, svc: { pad: true } })
    const text = await openAnswer(await relayed(agent, message), message).text()
    expect(padme(Buffer.byteLength(text))).toBe(Buffer.byteLength(text))
    const streamed = await sealed(await key(), { ...chat, stream: true, svc: { pad: true } })
    const events = await openAnswer(await relayed(agent, streamed), streamed).text()
    expect(events).toMatch(/\n\n: +\n\n/)
  })

  test('a reader that leaves ends the call of the runtime', async () => {
    server.setFaults({ kind: 'stall', afterChunks: 2 })
    const leaving = new AbortController()
    const aborted = server.nextAbort()
    const message = await sealed(await key(), { ...chat, stream: true })
    const response = await relayed(agent, message, { signal: leaving.signal })
    await response.body?.getReader().read()
    leaving.abort()
    await aborted
    await waitUntil('no call runs', () => agent.node.runtimes.list().every(({ inFlight }) => inFlight === 0))
  })
})

describe('§38: usage and receipt', () => {
  test('the signed receipt commits to the sealed bytes of both directions, and is told once', async () => {
    const requestId = newId('req')
    const message = await sealed(await key(), { ...chat, stream: true })
    const response = await relayed(agent, message, { requestId })
    const bytes = Buffer.from(await response.arrayBuffer())
    const ask = () => agent.call('GET', `/svc/v1/sealed-usage/${requestId}`)
    const usage = (await (await ask()).json()) as { finish: string; receipt: Record<string, number | string> }
    const runtime = agent.node.runtimes.list().find(({ models }) => models.some(({ id }) => id === 'm-1'))
    const hash = (of: Uint8Array) => `0x${createHash('sha256').update(of).digest('hex')}`
    const fitting = readNodeReceipt(
      usage,
      {
        requestId,
        jobId: null,
        kind: 'hosted_sealed',
        nodeId: agent.node.nodeId ?? '',
        nodeClass: 'gpu',
        runtimeId: runtime?.runtimeId ?? '',
        runtimeKind: runtime?.kind ?? '',
        modelId: 'm-1',
        promptTokens: Number(usage.receipt.prompt_tokens),
        completionTokens: Number(usage.receipt.completion_tokens),
        clientNonce: Buffer.from(message.enc).toString('hex'),
        requestCommitment: hash(message.bytes),
        responseCommitment: hash(bytes),
        upstreamModelCommitment: null,
      },
      agent.identity,
      { fromMs: Date.now(), endFromMs: Date.now(), toMs: Date.now() },
    )
    expect(fitting).not.toBeNull()
    expect(usage.finish).toBe('stop')
    expect((await ask()).status).toBe(404)
  })
})

describe('§38: what the agent refuses', () => {
  test('what no key opens has one answer: another key, a changed body, a low-order point', async () => {
    const stranger = await startLoneAgent()
    const [other] = await sealedKeysOf(stranger)
    await stranger.remove()
    const message = await sealed(await key(), chat)
    const changed = { ...message, bytes: message.bytes.slice() }
    changed.bytes[20] = (changed.bytes[20] ?? 0) ^ 1
    const answers = [
      await relayed(agent, await sealed(other as NonNullable<typeof other>, chat)),
      await relayed(agent, changed),
      await relayed(agent, message, { enc: '00'.repeat(32) }),
      await relayed(agent, message, { enc: `01${'00'.repeat(31)}` }),
    ]
    const texts = await Promise.all(answers.map((answer) => answer.text()))
    expect(answers.map(({ status }) => status)).toEqual([422, 422, 422, 422])
    expect(new Set(texts).size).toBe(1)
    expect(JSON.parse(texts[0] ?? '')).toMatchObject({ type: 'urn:ietf:params:ehbp:error:key-config' })
  })

  test('an encapsulated key works once, also when both requests come at the same time', async () => {
    const message = await sealed(await key(), chat)
    const both = await Promise.all([relayed(agent, message), relayed(agent, message)])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
    expect(await codeOf(await relayed(agent, message))).toEqual([409, 'envelope_replayed'])
  })

  test('a body of a frame of 2^32-1 bytes, of a million empty frames, or cut off is refused at once', async () => {
    const message = await sealed(await key(), chat)
    const bodies = [
      Uint8Array.of(0xff, 0xff, 0xff, 0xff, 1),
      new Uint8Array(4_000_000),
      message.bytes.slice(0, -1),
      emptyFrame.slice(),
      framed(new Uint8Array(3)),
    ]
    for (const bytes of bodies) {
      const refused = await relayed(agent, { ...message, bytes: bytes as Uint8Array<ArrayBuffer> })
      expect(await codeOf(refused)).toEqual([400, 'invalid_request'])
    }
    expect(await codeOf(await relayed(agent, message, { enc: 'AB' }))).toEqual([400, 'invalid_parameter'])
  })

  test('a body that opens but is no request has its error inside the seal', async () => {
    const ask = async (body: unknown, model?: string) => {
      const message = await sealed(await key(), body)
      const response = await relayed(agent, message, model === undefined ? {} : { model })
      return sealedCode(openAnswer(response, message))
    }
    expect(await ask('{"model":')).toEqual([400, 'invalid_json', null])
    expect((await ask('[1]')).slice(0, 2)).toEqual([400, 'invalid_request'])
    expect(await ask({ ...chat, model: 'm-2' })).toEqual([400, 'invalid_request', 'model'])
    expect(await ask({ ...chat, svc: { mixture: {} } })).toEqual([400, 'mixture_unsupported_path', 'svc.mixture'])
    expect(await ask({ ...chat, model: 'm-9' }, 'm-9')).toEqual([404, 'model_not_found', 'model'])
    expect(await ask(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)).toEqual([400, 'invalid_json', null])
  })

  test('more tokens than the header says are refused inside the seal, and the header bounds what names none', async () => {
    const bound = { headers: { [headers.maxTokens]: '7' } }
    const more = await sealed(await key(), { ...chat, max_tokens: 8 })
    expect(await sealedCode(openAnswer(await relayed(agent, more, bound), more))).toEqual([
      400,
      'max_tokens_exceeded',
      'max_tokens',
    ])
    const none = await sealed(await key(), chat)
    await relayed(agent, none, bound)
    expect(server.requests.at(-1)?.body).toMatchObject({ max_tokens: 7 })
  })

  test('only the gateway may ask', async () => {
    const message = await sealed(await key(), chat)
    const init = { method: 'POST', body: message.bytes, headers: { authorization: `Bearer ${agent.localToken}` } }
    const response = await fetch(`${agent.node.url}/svc/v1/sealed/chat/completions`, init)
    expect(await codeOf(response)).toEqual([401, 'missing_credentials'])
  })

  test('its log has neither prompt nor answer', async () => {
    const message = await sealed(await key(), { model: 'm-1', messages: [{ role: 'user', content: 'marker-7f3' }] })
    await openAnswer(await relayed(agent, message), message).text()
    expect(agent.log()).not.toContain('marker-7f3')
  })
})
