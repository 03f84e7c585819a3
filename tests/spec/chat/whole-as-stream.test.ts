import { afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import {
  nodeChunk,
  nodeUsage,
  type ScriptedCall,
  type ScriptedNode,
  startScriptedNode,
} from '../../support/nodes/scripted-node.ts'
import { streamOf, type WholeAnswer, wholeAnswers } from '../../support/nodes/streamed-answer.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'

const ids = new Map<ScriptedNode, string>()
/** §27: llama.cpp hears late that the client of a whole answer has left, so it is asked for a stream. */
const gateway = await fixture(startTestGateway({ env: { SVC_RECEIPT_FLUSH_MS: '5', SVC_METRICS_PUBLIC: 'true' } }))
const customer = await gateway.customer()
/** `streams` is a llama.cpp, `whole` is not; `spare` is a second llama.cpp with the model `pair`, as is `pairs`. */
const streams = startScriptedNode('streams', 'llama.cpp')
const whole = startScriptedNode('whole')
const pairs = startScriptedNode('pair', 'llama.cpp')
const spare = startScriptedNode('pair', 'llama.cpp')
const nodes = await fixture([streams, whole, pairs, spare])
for (const node of nodes) ids.set(node, await gateway.node(node.url, { customerId: customer.customerId }))

afterEach(() => {
  for (const node of nodes) node.answer(null)
})

const messages = [{ role: 'user', content: 'hello there' }]
const ask = (model: string, more: object = {}, init: RequestInit = {}) =>
  gateway.chat(customer.key, { model, messages, ...more }, init)
interface Told {
  readonly object: string
  readonly choices: readonly { readonly message: Readonly<Record<string, unknown>> }[]
  readonly usage: Readonly<Record<string, number>>
  readonly svc: { readonly ttft_ms: number; readonly latency_ms: number; readonly receipt_hash: string }
}
const told = async (response: Response): Promise<Told> => {
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as Told
}
async function metric(pattern: RegExp): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  return Number(pattern.exec(text)?.[1] ?? 0)
}
const firstTokens = (model: string) =>
  metric(new RegExp(`^gen_ai_server_time_to_first_token_seconds_count\\{[^}]*model="${model}"[^}]*\\} (\\d+)$`, 'm'))
const measuredOf = async (node: ScriptedNode) => {
  type Shown = {
    readonly runtimes: {
      readonly models: {
        readonly first_token: { readonly ms: number; readonly at: string; readonly of: number } | null
        readonly measured_at: string | null
      }[]
    }[]
  }
  const shown = await gateway.admin<Shown>('GET', `/v1/admin/nodes/${ids.get(node)}`)
  return shown.runtimes[0]?.models[0]
}
const say = (text: string) => (call: ScriptedCall) => {
  call.open()
  return speak(call, text)
}
async function speak(call: ScriptedCall, text: string): Promise<void> {
  await call.event(nodeChunk({ role: 'assistant', content: null }))
  await call.event(nodeChunk({ content: text }))
  await call.event(nodeChunk({}, 'stop'))
  await call.event({ choices: [], usage: nodeUsage })
  await call.event('[DONE]')
  call.end()
}

describe('a whole answer of a llama.cpp', () => {
  test('is asked for as a stream with usage, and told whole', async () => {
    const calls = streams.calls
    let body: unknown
    streams.answer((call) => {
      body = call.body
      return say('Hello')(call)
    })
    const response = await ask('streams', { stream: false, stream_options: null, temperature: 0.5 })
    expect(response.headers.get('content-type')).toBe('application/json')
    const answer = await told(response)
    expect(answer).toMatchObject({
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: nodeUsage,
    })
    expect(body).toEqual({
      model: 'streams',
      messages,
      temperature: 0.5,
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(streams.calls).toBe(calls + 1)
  })

  test('is what the same node’s whole answer would have been', async () => {
    await fc.assert(
      fc.asyncProperty(wholeAnswers, fc.infiniteStream(fc.nat({ max: 1_000 })), async (given: WholeAnswer, random) => {
        const next = (max: number) => random.next().value % (max + 1)
        streams.answer(async (call) => {
          call.open()
          await call.raw(streamOf(given, next))
          call.end()
        })
        whole.answer((call) => call.respond(200, given))
        const [gathered, direct] = await Promise.all([ask('streams').then(told), ask('whole').then(told)])
        expect([gathered.choices, gathered.usage]).toEqual([direct.choices, direct.usage])
      }),
      { numRuns: 40 },
    )
  })

  test('with tools it is asked for whole: its streams of calls can fail where the whole text does not', async () => {
    let body: Record<string, unknown> = {}
    streams.answer((call) => {
      body = call.body
      call.respond(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
      })
    })
    await told(await ask('streams', { tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] }))
    expect(body).not.toHaveProperty('stream')
    streams.answer((call) => {
      body = call.body
      return say('x')(call)
    })
    await told(await ask('streams', { tools: [] }))
    expect(body.stream).toBe(true)
  })

  test('a client that leaves closes the node’s connection, before the first byte and in the middle', async () => {
    for (const begun of [false, true]) {
      const leave = new AbortController()
      const answer = ask('streams', {}, { signal: leave.signal }).catch(() => 'left')
      const call = await streams.next()
      if (begun) {
        call.open()
        await call.event(nodeChunk({ role: 'assistant', content: 'a' }))
      }
      leave.abort()
      await call.gone
      expect(await answer).toBe('left')
    }
    await waitFor('no call in flight', async () => (await metric(/^svc_requests_in_flight (\d+)$/m)) === 0)
  })

  test('a sub-call of a mixture, too', async () => {
    const streamed: unknown[] = []
    streams.answer((call) => {
      streamed.push(call.body.stream)
      return say('Paris')(call)
    })
    const svc = { mixture: { strategy: 'vote', experts: [{ model: 'streams' }, { model: 'streams' }] } }
    expect((await told(await ask('streams', { svc }))).choices[0]?.message.content).toBe('Paris')
    expect(streamed).toEqual([true, true])
  })
})

describe('a stream that breaks before the whole answer is there', () => {
  const breaks: readonly [string, (call: ScriptedCall) => void | Promise<void>][] = [
    ['cut', (call) => call.cut('reset')],
    ['ended without a finish', (call) => call.end()],
    ['an error event', (call) => call.event({ error: { message: 'Invalid diff', code: 500 } }).then(() => call.end())],
    ['a line that is no JSON', (call) => call.raw('data: {"cho\n\n').then(() => call.end())],
  ]
  test.each(breaks)('%s: the next machine is asked, and nothing of the first is told', async (_name, end) => {
    const fails = async (call: ScriptedCall) => {
      call.open()
      await call.event(nodeChunk({ role: 'assistant', content: 'broken' }))
      await end(call)
    }
    const before = pairs.calls + spare.calls
    // Whichever is asked first fails.
    let first = true
    for (const node of [pairs, spare]) {
      node.answer((call) => {
        const script = first ? fails : say('whole')
        first = false
        return script(call)
      })
    }
    const answer = await told(await ask('pair'))
    expect(answer.choices[0]?.message.content).toBe('whole')
    expect(pairs.calls + spare.calls).toBe(before + 2)
  })

  test('usage that never comes is estimated; what a node adds after its end is not waited for', async () => {
    streams.answer(async (call) => {
      call.open()
      await call.event(nodeChunk({ role: 'assistant', content: 'abc' }))
      await call.event(nodeChunk({}, 'stop'))
    })
    const answer = await told(await ask('streams'))
    expect(answer.svc).toMatchObject({ usage_estimated: true })
    expect(answer.choices[0]?.message.content).toBe('abc')
  })
})

describe('§27: time to first token', () => {
  test('is that of the first content where the answer was asked for as a stream; `ttft_ms` stays the first byte', async () => {
    const before = await firstTokens('streams')
    streams.answer(async (call) => {
      call.open()
      await call.raw(': still reading\n\n')
      await lasts(400)
      await speak(call, 'Hello')
    })
    const { svc } = await told(await ask('streams'))
    expect(svc.latency_ms - svc.ttft_ms).toBeGreaterThanOrEqual(100)
    expect(await firstTokens('streams')).toBe(before + 1)
    expect((await measuredOf(streams))?.first_token?.ms).toBeGreaterThan(0)
  })

  test('of an answer that was asked for whole nobody knows it: no sample, no mean, and placement goes on', async () => {
    whole.answer(async (call) => {
      await lasts(20)
      call.respond(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
        usage: nodeUsage,
      })
    })
    for (let i = 0; i < 3; i++) expect((await told(await ask('whole'))).svc.ttft_ms).toBeGreaterThanOrEqual(15)
    expect(await firstTokens('whole')).toBe(0)
    const shown = await measuredOf(whole)
    expect(shown?.first_token).toBeNull()
    // It was measured all the same: the list of models says when.
    expect(shown?.measured_at).not.toBeNull()
    whole.answer(say('x'))
    await (await ask('whole', { stream: true })).text()
    expect(await firstTokens('whole')).toBe(1)
    expect((await measuredOf(whole))?.first_token).toMatchObject({ of: 1 })
  })

  test('§32: an answer without content has none, asked for as a stream by the client or by the gateway', async () => {
    const [before, shown] = [await firstTokens('streams'), (await measuredOf(streams))?.first_token]
    streams.answer(async (call) => {
      call.open()
      await call.event(nodeChunk({ role: 'assistant', content: null }))
      await lasts(20)
      await call.event(nodeChunk({}, 'stop'))
      await call.event('[DONE]')
      call.end()
    })
    for (const more of [{}, { stream: true }]) {
      const response = await ask('streams', more)
      await response.text()
      const { request } = await gateway.admin<{ request: object }>(
        'GET',
        `/v1/admin/requests/${response.headers.get('x-request-id')}`,
      )
      expect(request).toMatchObject({ status: 200, ttft_ms: null })
    }
    expect(await firstTokens('streams')).toBe(before)
    expect((await measuredOf(streams))?.first_token).toEqual(shown)
  })
})
