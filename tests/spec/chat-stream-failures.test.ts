import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { expectRefusal } from '../support/chat-refusal.ts'
import { EventStreamReader, readStream } from '../support/event-stream.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateway.ts'
import {
  nodeChunk,
  nodeUsage,
  type ScriptedCall,
  type ScriptedNode,
  startScriptedNode,
} from '../support/scripted-node.ts'

const leak = '/srv/secret-of-the-node'
/** The times of §6, scaled down: the status is held for 600 ms instead of 8 s, and so on. */
const commitMs = 600
const scaled = {
  SVC_HEADER_COMMIT_MS: String(commitMs),
  SVC_INTER_CHUNK_TIMEOUT_MS: '1000',
  SVC_TTFT_TIMEOUT_MS: '2000',
  SVC_TOTAL_TIMEOUT_MS: '3000',
  SVC_FAILOVER_FIRST_CHUNK_MS: '1200',
  SVC_KEEP_ALIVE_MS: '5000',
}

let gateway: TestGateway
let node: ScriptedNode
/** Two that serve `pair`. */
let first: ScriptedNode
let second: ScriptedNode
let customer: TestCustomer
beforeAll(async () => {
  gateway = await startTestGateway({ env: scaled })
  customer = await gateway.customer()
  node = startScriptedNode('m')
  first = startScriptedNode('pair')
  second = startScriptedNode('pair')
  const owned = { customerId: customer.customerId }
  await Promise.all([node, first, second].map(({ url }) => gateway.node(url, owned)))
})
afterAll(async () => {
  for (const each of [node, first, second]) each.stop()
  await gateway.stop()
})
afterEach(() => {
  for (const each of [node, first, second]) each.answer(null)
})

const ask = (body: object = {}, init: RequestInit = {}) => {
  const sent = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }], ...body }
  return gateway.chat(customer.key, sent, init)
}

const role = nodeChunk({ role: 'assistant', content: '' })
const text = (content: string) => nodeChunk({ content })
const finish = nodeChunk({}, 'stop', { usage: nodeUsage })
const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`
const error = { message: leak, type: 'server_error', code: 500 }

async function errorEvent(call: ScriptedCall): Promise<void> {
  call.open()
  await call.raw(event({ error }))
  call.end()
}

function cutAfterHead(call: ScriptedCall): void {
  call.open()
  call.cut('reset')
}

/** What a client sees of a failure after the first chunk: one error chunk, and the end without `[DONE]`. */
async function expectBroken(response: Response, code: string, status: number, message: string, content: string) {
  expect(response.status).toBe(200)
  const stream = await readStream(response)
  expect(stream.text).not.toContain(leak)
  expect([stream.content, stream.done]).toEqual([content, false])
  const { id, object, created, model } = stream.chunks[0] ?? stream.last
  const type = status === 503 ? 'service_unavailable_error' : 'server_error'
  expect<unknown>(stream.last).toEqual({
    ...{ id, object, created, model },
    choices: [{ index: 0, delta: {}, finish_reason: 'error' }],
    // Stops clients that look for a chunk before they look for an error.
    usage: false,
    error: {
      message,
      type,
      param: null,
      code,
      svc: {
        request_id: response.headers.get('x-request-id') ?? '',
        status,
        retryable: true,
        retry_after_seconds: null,
      },
    },
  })
  expect(stream.chunks.slice(0, -1).every((chunk) => chunk.error === undefined)).toBe(true)
}

const told = {
  lost: 'The node stopped responding.',
  failed: 'The node failed while it was answering.',
  idle: 'The node stopped sending.',
  late: 'The answer took too long.',
}

/** How nodes say that they failed, as raw text of the stream (§6, accepted shapes). */
const shapes: readonly (readonly [name: string, raw: string])[] = [
  ['an error object', event({ error })],
  ['an error text', event({ error: leak })],
  ['object error', event({ object: 'error', message: leak, code: 500 })],
  ['an error line', `error: ${JSON.stringify(error)}\n\n`],
  ['a named event', `event: error\n${event({ error })}`],
  ['an error beside choices', event({ ...text(leak), error })],
]

describe('§6: a node fails before its first chunk: a plain HTTP error', () => {
  const failed = { status: 502, code: 'upstream_error', retry: true }
  test.each(shapes.map((row) => [...row] as const))('%s', async (_name, raw) => {
    node.answer(async (call) => {
      call.open()
      await call.raw(raw)
      call.end()
    })
    await expectRefusal(await ask(), failed, leak)
  })

  test.each([
    ['a JSON error body', (call: ScriptedCall) => call.respond(200, { error })],
    ['an HTML page', (call: ScriptedCall) => call.respond(200, `<html>${leak}`, { 'content-type': 'text/html' })],
    ['an empty body', (call: ScriptedCall) => call.respond(200, '')],
    ['only comments', (call: ScriptedCall) => call.respond(200, ': x\n\n: y\n\n')],
    ['only [DONE]', (call: ScriptedCall) => call.respond(200, 'data: [DONE]\n\n')],
    ['only lines that are no JSON', (call: ScriptedCall) => call.respond(200, 'data: {\n\ndata: x\n\n')],
    ['an empty event stream, then a reset', cutAfterHead],
  ])('under 200: %s', async (_name, script) => {
    node.answer(script)
    await expectRefusal(await ask(), failed, leak)
  })

  test('comments of the node are no chunk: the failure after them is still an HTTP error', async () => {
    node.answer(async (call) => {
      call.open()
      await call.raw(': OPENROUTER PROCESSING\n\n')
      await Bun.sleep(50)
      await call.raw(event({ error }))
      call.end()
    })
    await expectRefusal(await ask(), failed, leak)
  })
})

describe('§6: a node fails after its first chunk: an error chunk, then the end without [DONE]', () => {
  const after = (raw: string | null, how: 'end' | 'fin' | 'reset') => async (call: ScriptedCall) => {
    call.open()
    await call.event(role)
    await call.event(text('so far'))
    if (raw !== null) await call.raw(raw)
    if (how === 'end') call.end()
    else call.cut(how)
  }
  test.each(shapes.map((row) => [...row] as const))('%s', async (_name, raw) => {
    node.answer(after(raw, 'end'))
    await expectBroken(await ask(), 'upstream_error', 502, told.failed, 'so far')
  })

  test.each([
    ['the body ends without a finish chunk', null, 'end'],
    ['[DONE] without a finish chunk', 'data: [DONE]\n\n', 'end'],
    ['the connection is closed', null, 'fin'],
    ['the connection is reset', null, 'reset'],
    ['in the middle of an event', 'data: {"choices":[{"index":0,"del', 'reset'],
  ] as const)('node_lost: %s', async (_name, raw, how) => {
    node.answer(after(raw, how))
    await expectBroken(await ask(), 'node_lost', 502, told.lost, 'so far')
  })

  test('what the node sends after its error is not heard, and the gateway lets go of it', async () => {
    const arriving = node.next()
    const asking = ask()
    const call = await arriving
    call.open()
    await call.raw(event(role) + event(text('so far')) + event({ error }) + event(text(leak)) + event(finish))
    await expectBroken(await asking, 'upstream_error', 502, told.failed, 'so far')
    await call.gone
  })

  test('a failure after the finish chunk takes nothing away', async () => {
    for (const how of ['fin', 'reset'] as const) {
      node.answer(async (call) => {
        call.open()
        for (const chunk of [role, text('all'), nodeChunk({}, 'stop')]) await call.event(chunk)
        await Bun.sleep(20)
        call.cut(how)
      })
      const stream = await readStream(await ask())
      expect([stream.content, stream.done, stream.last.svc?.usage_estimated]).toEqual(['all', true, true])
    }
  })

  test('an event that is too large', async () => {
    node.answer(async (call) => {
      call.open()
      await call.event(text('so far'))
      await call.raw('data: ')
      for (let i = 0; i < 9; i++) await call.raw('x'.repeat(1024 * 1024))
    })
    await expectBroken(await ask(), 'upstream_error', 502, told.failed, 'so far')
  })
})

describe('§6: the status is held until the first chunk or the commit', () => {
  const failures: readonly (readonly [name: string, fail: (call: ScriptedCall) => void | Promise<void>])[] = [
    ['HTTP 500', (call) => call.respond(500, { error })],
    ['a reset', (call) => call.cut('reset')],
    ['an error event under 200', errorEvent],
  ]
  const early = failures.flatMap(([name, fail]) => [50, 300].map((atMs) => [name, atMs, fail] as const))
  test.each(early)('%s after %i ms: HTTP 502', async (_name, atMs, fail) => {
    node.answer(async (call) => {
      await Bun.sleep(atMs)
      await fail(call)
    })
    await expectRefusal(await ask(), { status: 502, code: 'upstream_error', retry: true }, leak)
  })

  test.each(failures.map((row) => [...row] as const))(
    '%s after the commit: HTTP 200 and an error chunk',
    async (_name, fail) => {
      node.answer(async (call) => {
        await Bun.sleep(commitMs + 200)
        await fail(call)
      })
      const began = performance.now()
      const response = await ask()
      expect(performance.now() - began).toBeGreaterThanOrEqual(commitMs - 10)
      expect(performance.now() - began).toBeLessThan(commitMs + 180)
      await expectBroken(response, 'upstream_error', 502, told.failed, '')
    },
  )

  test('a first chunk before it commits at once, one after it still opens with the role', async () => {
    for (const [atMs, heldMs] of [
      [100, 100],
      [commitMs + 200, commitMs],
    ] as const) {
      node.answer(async (call) => {
        await Bun.sleep(atMs)
        call.open()
        for (const chunk of [text('a'), finish]) await call.event(chunk)
        call.end()
      })
      const began = performance.now()
      const response = await ask()
      const took = performance.now() - began
      expect(took).toBeGreaterThanOrEqual(heldMs - 10)
      expect(took).toBeLessThan(heldMs + 180)
      const { chunks, content, done } = await readStream(response)
      expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
      expect([content, done]).toEqual(['a', true])
    }
  })
})

describe('§5: failover of a stream, only while no chunk was sent', () => {
  /** Whoever of the pair is asked first does `fail`, the other one answers. */
  function failsThenAnswers(fail: (call: ScriptedCall) => void | Promise<void>): () => number {
    let asked = 0
    const script = async (call: ScriptedCall) => {
      asked++
      if (asked === 1) return fail(call)
      call.open()
      for (const chunk of [role, text('from the other'), finish]) await call.event(chunk)
      call.end()
    }
    first.answer(script)
    second.answer(script)
    return () => asked
  }
  const silentFor = (ms: number) => async (call: ScriptedCall) => {
    await Bun.sleep(ms)
    call.respond(500, {})
  }
  test.each([
    ['500', silentFor(0)],
    ['a reset', (call: ScriptedCall) => call.cut('reset')],
    ['an error event', errorEvent],
    ['a 500 after the commit', silentFor(commitMs + 150)],
    [
      'an error event, and after it chunks in the same write',
      (call: ScriptedCall) => {
        call.open()
        const smuggled = [{ error }, role, text(leak), finish].map(event).join('')
        void call.raw(`${smuggled}data: [DONE]\n\n`).then(() => call.end())
      },
    ],
    [
      'half an event, then a reset',
      (call: ScriptedCall) => {
        call.open()
        void call.raw(`data: {"choices":[{"index":0,"delta":{"content":"${leak}`).then(() => call.cut('reset'))
      },
    ],
    ['silence beyond the time for a first chunk', (call: ScriptedCall) => call.open()],
  ])('%s: the other machine answers', async (_name, fail) => {
    const asked = failsThenAnswers(fail)
    const stream = await readStream(await ask({ model: 'pair' }))
    expect(stream.text).not.toContain(leak)
    expect([stream.content, stream.done, asked()]).toEqual(['from the other', true, 2])
    expect(stream.last.usage).toEqual(nodeUsage)
  })

  test('after the first chunk there is none', async () => {
    const asked = failsThenAnswers(async (call) => {
      call.open()
      await call.event(text('so far'))
      call.cut('reset')
    })
    await expectBroken(await ask({ model: 'pair' }), 'node_lost', 502, told.lost, 'so far')
    expect(asked()).toBe(1)
  })
})

describe('§6: deadlines and keep-alives', () => {
  test.concurrent('stream_idle_timeout between two chunks', async () => {
    const own = startScriptedNode('idle')
    try {
      await gateway.node(own.url, { customerId: customer.customerId })
      const arriving = own.next()
      const asking = ask({ model: 'idle' })
      const call = await arriving
      call.open()
      await call.event(text('so far'))
      await expectBroken(await asking, 'stream_idle_timeout', 504, told.idle, 'so far')
      await call.gone
    } finally {
      own.stop()
    }
  })

  test.concurrent('upstream_timeout: the whole answer takes too long', async () => {
    const own = startScriptedNode('endless')
    try {
      await gateway.node(own.url, { customerId: customer.customerId })
      const arriving = own.next()
      const asking = ask({ model: 'endless' })
      const call = await arriving
      call.open()
      let open = true
      void call.gone.then(() => {
        open = false
      })
      const sending = (async () => {
        for (; open; await Bun.sleep(100)) await call.event(text('.'))
      })()
      const stream = await readStream(await asking)
      expect([stream.done, stream.last.error?.code, stream.last.error?.message]).toEqual([
        false,
        'upstream_timeout',
        told.late,
      ])
      await sending
    } finally {
      own.stop()
    }
  })

  test.concurrent('upstream_timeout: no first chunk, told inside the committed stream', async () => {
    const own = startScriptedNode('mute')
    try {
      await gateway.node(own.url, { customerId: customer.customerId })
      const arriving = own.next()
      const asking = ask({ model: 'mute' })
      const call = await arriving
      await expectBroken(await asking, 'upstream_timeout', 504, told.late, '')
      await call.gone
    } finally {
      own.stop()
    }
  })

  test.concurrent('a comment at the commit and after each silence, and the answer after them is whole', async () => {
    const patient = await startTestGateway({
      beside: gateway,
      env: { SVC_KEEP_ALIVE_MS: '5000', SVC_HEADER_COMMIT_MS: '200' },
    })
    const own = startScriptedNode('slow')
    try {
      await patient.node(own.url, { customerId: customer.customerId })
      const arriving = own.next()
      const sent = { model: 'slow', stream: true, messages: [{ role: 'user', content: 'hi' }] }
      const began = performance.now()
      const asking = patient.chat(customer.key, sent)
      const call = await arriving
      const reader = new EventStreamReader(await asking)
      expect(await reader.block()).toBe(': svc processing')
      expect(performance.now() - began).toBeGreaterThanOrEqual(190)
      expect(performance.now() - began).toBeLessThan(1_000)
      expect(await reader.block()).toBe(': svc processing')
      const silence = performance.now() - began
      expect(silence).toBeGreaterThanOrEqual(5_000)
      expect(silence).toBeLessThan(6_500)
      call.open()
      for (const chunk of [text('x'), finish]) await call.event(chunk)
      call.end()
      expect((await reader.chunk()).choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
      expect((await reader.chunk()).choices[0]?.delta).toEqual({ content: 'x' })
      expect((await reader.rest()).at(-1)).toBe('data: [DONE]')
    } finally {
      own.stop()
      await patient.stop()
    }
  }, 20_000)
})
