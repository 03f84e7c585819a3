import { afterEach, describe, expect, test } from 'bun:test'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { nodeChunk, nodeUsage, type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { error, errorEvent, event, expectBroken, finished, told } from '../../support/pools/broken-stream.ts'
import { leak, role, startStreamPool, text } from '../../support/pools/stream-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'

const pool = await fixture(startStreamPool({ SVC_FAILOVER_FIRST_CHUNK_MS: '1000' }))
/** Two that serve `pair`. */
const first = await fixture(startScriptedNode('pair'))
const second = await fixture(startScriptedNode('pair'))
const owned = { customerId: pool.customer.customerId }
await Promise.all([first, second].map(({ url }) => pool.gateway.node(url, owned)))

afterEach(() => {
  for (const each of [pool.node, first, second]) each.answer(null)
})

function cutAfterHead(call: ScriptedCall): void {
  call.open()
  call.cut('reset')
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
    pool.node.answer(async (call) => {
      call.open()
      await call.raw(raw)
      call.end()
    })
    await expectRefusal(await pool.ask(), failed, leak)
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
    pool.node.answer(script)
    await expectRefusal(await pool.ask(), failed, leak)
  })

  test('comments of the node are no chunk: the failure after them is still an HTTP error', async () => {
    pool.node.answer(async (call) => {
      call.open()
      await call.raw(': OPENROUTER PROCESSING\n\n')
      await lasts(50)
      await call.raw(event({ error }))
      call.end()
    })
    await expectRefusal(await pool.ask(), failed, leak)
  })
})

describe('§6: a node fails before the commit, however late: a plain HTTP error', () => {
  const ways: readonly (readonly [name: string, fail: (call: ScriptedCall) => void | Promise<void>])[] = [
    ['HTTP 500', (call) => call.respond(500, { error })],
    ['a reset', (call) => call.cut('reset')],
    ['an error event under 200', errorEvent],
  ]
  const late = ways.flatMap(([name, fail]) => [50, 600].map((atMs) => [name, atMs, fail] as const))
  test.each(late)('%s after %i ms', async (_name, atMs, fail) => {
    pool.node.answer(async (call) => {
      await lasts(atMs)
      await fail(call)
    })
    await expectRefusal(await pool.ask(), { status: 502, code: 'upstream_error', retry: true }, leak)
  })

  test('and a first chunk before it commits at once', async () => {
    // One that says nothing is asked before, and has no status yet when the other has.
    const arriving = pool.node.next()
    const leaving = new AbortController()
    let committed = false
    const silent = pool.ask({}, { signal: leaving.signal }).then(
      () => {
        committed = true
      },
      () => {},
    )
    const call = await arriving
    pool.node.answer(async (other) => {
      other.open()
      await other.event(text('a'))
    })
    const response = await pool.ask()
    expect(response.status).toBe(200)
    expect(committed).toBe(false)
    await response.body?.cancel()
    leaving.abort()
    await call.gone
    await silent
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
    pool.node.answer(after(raw, 'end'))
    await expectBroken(await pool.ask(), 'upstream_error', 502, told.failed, 'so far')
  })

  test.each([
    ['the body ends without a finished chunk', null, 'end'],
    ['[DONE] without a finished chunk', 'data: [DONE]\n\n', 'end'],
    ['the connection is closed', null, 'fin'],
    ['the connection is reset', null, 'reset'],
    ['in the middle of an event', 'data: {"choices":[{"index":0,"del', 'reset'],
  ] as const)('node_lost: %s', async (_name, raw, how) => {
    pool.node.answer(after(raw, how))
    await expectBroken(await pool.ask(), 'node_lost', 502, told.lost, 'so far')
  })

  test('what the node sends after its error is not heard, and the gateway lets go of it', async () => {
    const arriving = pool.node.next()
    const asking = pool.ask()
    const call = await arriving
    call.open()
    await call.raw(event(role) + event(text('so far')) + event({ error }) + event(text(leak)) + event(finished))
    await expectBroken(await asking, 'upstream_error', 502, told.failed, 'so far')
    await call.gone
  })

  test('a failure after the finished chunk takes nothing away', async () => {
    for (const how of ['fin', 'reset'] as const) {
      pool.node.answer(async (call) => {
        call.open()
        for (const chunk of [role, text('all'), nodeChunk({}, 'stop')]) await call.event(chunk)
        await lasts(20)
        call.cut(how)
      })
      const stream = await readStream(await pool.ask())
      expect([stream.content, stream.done, stream.last.svc?.usage_estimated]).toEqual(['all', true, true])
    }
  })

  test('an event that is too large', async () => {
    pool.node.answer(async (call) => {
      call.open()
      await call.event(text('so far'))
      await call.raw('data: ')
      for (let i = 0; i < 9; i++) await call.raw('x'.repeat(1024 * 1024))
    })
    await expectBroken(await pool.ask(), 'upstream_error', 502, told.failed, 'so far')
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
      for (const chunk of [role, text('from the other'), finished]) await call.event(chunk)
      call.end()
    }
    first.answer(script)
    second.answer(script)
    return () => asked
  }
  test.each([
    ['500', (call: ScriptedCall) => call.respond(500, {})],
    ['a reset', (call: ScriptedCall) => call.cut('reset')],
    ['an error event', errorEvent],
    [
      'an error event, and after it chunks in the same write',
      (call: ScriptedCall) => {
        call.open()
        const smuggled = [{ error }, role, text(leak), finished].map(event).join('')
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
    const stream = await readStream(await pool.ask({ model: 'pair' }))
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
    await expectBroken(await pool.ask({ model: 'pair' }), 'node_lost', 502, told.lost, 'so far')
    expect(asked()).toBe(1)
  })
})
