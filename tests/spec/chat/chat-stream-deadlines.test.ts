import { afterEach, describe, expect, test } from 'bun:test'
import { EventStreamReader, readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { error, errorEvent, expectBroken, finished, told } from '../../support/pools/broken-stream.ts'
import { startStreamPool, text } from '../../support/pools/stream-pool.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'

/** The times of §6, scaled down: the status is held for 700 ms instead of 8 s, and so on. */
const commitMs = 700
const scaled = {
  SVC_HEADER_COMMIT_MS: String(commitMs),
  SVC_INTER_CHUNK_TIMEOUT_MS: '5000',
  SVC_TTFT_TIMEOUT_MS: '7000',
  SVC_TOTAL_TIMEOUT_MS: '10000',
}

const pool = await fixture(startStreamPool(scaled))
/** Two that serve `pair`. */
const first = await fixture(startScriptedNode('pair'))
const second = await fixture(startScriptedNode('pair'))
const owned = { customerId: pool.customer.customerId }
await Promise.all([first, second].map(({ url }) => pool.gateway.node(url, owned)))

afterEach(() => {
  for (const each of [pool.node, first, second]) each.answer(null)
})

describe('§6: the status is committed before there is a chunk', () => {
  /** The response, which comes at the commit because the node says nothing, and the call that is still open. */
  async function silent(model = 'm'): Promise<{ readonly call: ScriptedCall; readonly response: Response }> {
    const nodes = model === 'm' ? [pool.node] : [first, second]
    const arriving = Promise.race(nodes.map((each) => each.next()))
    const tookMs = stopwatch()
    const asking = pool.ask({ model })
    const call = await arriving
    const response = await asking
    expect(tookMs()).toBeGreaterThanOrEqual(commitMs - 10)
    expect(response.status).toBe(200)
    return { call, response }
  }

  test.each([
    ['HTTP 500', (call: ScriptedCall) => call.respond(500, { error })],
    ['a reset', (call: ScriptedCall) => call.cut('reset')],
    ['an error event under 200', errorEvent],
  ])('%s after it: an error chunk', async (_name, fail) => {
    const { call, response } = await silent()
    await fail(call)
    await expectBroken(response, 'upstream_error', 502, told.failed, '')
  })

  test('a first chunk after it still opens with the role', async () => {
    const { call, response } = await silent()
    call.open()
    for (const chunk of [text('a'), finished]) await call.event(chunk)
    call.end()
    const { blocks, chunks, content, done } = await readStream(response)
    expect(blocks[0]).toBe(': svc processing')
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
    expect([content, done]).toEqual(['a', true])
  })

  test('§5: a comment is no chunk: another machine may still answer', async () => {
    const { call, response } = await silent('pair')
    for (const each of [first, second]) {
      each.answer(async (other) => {
        other.open()
        for (const chunk of [text('from the other'), finished]) await other.event(chunk)
        other.end()
      })
    }
    call.respond(500, { error })
    const { content, done } = await readStream(response)
    expect([content, done]).toEqual(['from the other', true])
  })
})

test.each(['reset', 'fin'] as const)(
  '§5: half an event that one machine leaves behind (%s) does not run into the answer of the next',
  async (how) => {
    const model = `halves-${how}`
    const both = [startScriptedNode(model), startScriptedNode(model)]
    let calls = 0
    const script = async (call: ScriptedCall) => {
      call.open()
      if (calls++ === 0) {
        await call.raw('data: {"choices":[{"index":0,"delta":{"content":"lost')
        return call.cut(how)
      }
      for (const chunk of [text('whole'), finished]) await call.event(chunk)
      call.end()
    }
    try {
      for (const each of both) {
        each.answer(script)
        await pool.gateway.node(each.url, { customerId: pool.customer.customerId })
      }
      const { content, done } = await readStream(await pool.ask({ model }))
      expect([calls, content, done]).toEqual([2, 'whole', true])
    } finally {
      for (const each of both) each.stop()
    }
  },
)

describe('§6: deadlines and keep-alives', () => {
  test.concurrent('stream_idle_timeout between two chunks', async () => {
    await using own = await scoped(startScriptedNode('idle'))
    await pool.gateway.node(own.url, { customerId: pool.customer.customerId })
    const arriving = own.next()
    const asking = pool.ask({ model: 'idle' })
    const call = await arriving
    call.open()
    await call.event(text('so far'))
    await expectBroken(await asking, 'stream_idle_timeout', 504, told.idle, 'so far')
    await call.gone
  })

  test.concurrent('upstream_timeout: the whole answer takes too long', async () => {
    await using own = await scoped(startScriptedNode('endless'))
    await pool.gateway.node(own.url, { customerId: pool.customer.customerId })
    const arriving = own.next()
    const asking = pool.ask({ model: 'endless' })
    const call = await arriving
    call.open()
    let open = true
    void call.gone.then(() => {
      open = false
    })
    const sending = (async () => {
      for (; open; await lasts(100)) await call.event(text('.'))
    })()
    const stream = await readStream(await asking)
    expect([stream.done, stream.last.error?.code, stream.last.error?.message]).toEqual([
      false,
      'upstream_timeout',
      told.late,
    ])
    await sending
  })

  test.concurrent('upstream_timeout: no first chunk, told inside the committed stream', async () => {
    await using own = await scoped(startScriptedNode('mute'))
    await pool.gateway.node(own.url, { customerId: pool.customer.customerId })
    const arriving = own.next()
    const asking = pool.ask({ model: 'mute' })
    const call = await arriving
    await expectBroken(await asking, 'upstream_timeout', 504, told.late, '')
    await call.gone
  })

  test.concurrent('upstream_timeout: one deadline for all machines: beyond it no other is asked', async () => {
    const both = [startScriptedNode('twins'), startScriptedNode('twins')]
    try {
      for (const { url } of both) await pool.gateway.node(url, { customerId: pool.customer.customerId })
      await expectBroken(await pool.ask({ model: 'twins' }), 'upstream_timeout', 504, told.late, '')
      expect(both.map(({ calls }) => calls).toSorted()).toEqual([0, 1])
    } finally {
      for (const each of both) each.stop()
    }
  })

  test.concurrent('nor for a whole answer, which has longer: a node that fails after that deadline was the last', async () => {
    const both = [startScriptedNode('late'), startScriptedNode('late')]
    const failsAfterMs = Number(scaled.SVC_TTFT_TIMEOUT_MS) + 100
    try {
      for (const { url } of both) await pool.gateway.node(url, { customerId: pool.customer.customerId })
      for (const each of both) {
        each.answer(async (call) => {
          await lasts(failsAfterMs)
          call.respond(500, {})
        })
      }
      const response = await pool.ask({ model: 'late', stream: false })
      const { error: said } = (await response.json()) as { error: { code: string } }
      expect([response.status, said.code]).toEqual([504, 'upstream_timeout'])
      expect(both.map(({ calls }) => calls).toSorted()).toEqual([0, 1])
    } finally {
      for (const each of both) each.stop()
    }
  })

  test.concurrent('a comment at the commit and after each silence, and the answer after them is whole', async () => {
    await using patient = await scoped(
      startTestGateway({
        beside: pool.gateway,
        env: { SVC_KEEP_ALIVE_MS: '5000', SVC_HEADER_COMMIT_MS: '200' },
      }),
    )
    await using own = await scoped(startScriptedNode('slow'))
    await patient.node(own.url, { customerId: pool.customer.customerId })
    const arriving = own.next()
    const sent = { model: 'slow', stream: true, messages: [{ role: 'user', content: 'hi' }] }
    const tookMs = stopwatch()
    const asking = patient.chat(pool.customer.key, sent)
    const call = await arriving
    const reader = new EventStreamReader(await asking)
    expect(await reader.block()).toBe(': svc processing')
    expect(tookMs()).toBeGreaterThanOrEqual(190)
    expect(await reader.block()).toBe(': svc processing')
    expect(tookMs()).toBeGreaterThanOrEqual(5_000)
    call.open()
    for (const chunk of [text('x'), finished]) await call.event(chunk)
    call.end()
    expect((await reader.chunk()).choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
    expect((await reader.chunk()).choices[0]?.delta).toEqual({ content: 'x' })
    expect((await reader.rest()).at(-1)).toBe('data: [DONE]')
  })
})
