import { afterEach, describe, expect, test } from 'bun:test'
import { EventStreamReader, type ReadStream, readStream } from '../../support/clients/event-stream.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { nodeChunk, nodeUsage } from '../../support/nodes/scripted-node.ts'
import {
  askUsage,
  done,
  finish,
  prompt,
  role,
  startStreamPool,
  text,
  usage,
  usual,
  writes,
} from '../../support/pools/stream-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'

/** Of the one that waits for the usage in vain, ms. */
const shortHoldMs = 300
const pool = await fixture(startStreamPool({ SVC_FINISH_HOLD_MS: '10000', SVC_RECEIPT_FLUSH_MS: '5' }))
/** Holds the last chunk for a short time only. */
const impatient = await fixture(startStreamPool({ SVC_FINISH_HOLD_MS: String(shortHoldMs), SVC_RECEIPT_FLUSH_MS: '5' }))

afterEach(() => pool.node.answer(null))

/** A timer may fire a little early. */
const roundingMs = 10

describe('§6: the terminal chunk', () => {
  test('include_usage not sent: one chunk with the finish, usage and svc', async () => {
    for (const options of [{}, { stream_options: { include_usage: false } }, { stream_options: null }]) {
      const { chunks, last } = await pool.streamed(writes(...usual), options)
      expect(last.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
      expect(last.usage).toEqual(nodeUsage)
      expect(chunks.filter((chunk) => chunk.usage !== undefined || chunk.svc !== undefined)).toHaveLength(1)
    }
  })

  test('include_usage sent: the finish chunk as it is, then one without choices', async () => {
    const { chunks } = await pool.streamed(writes(...usual), askUsage)
    const [before, last] = chunks.slice(-2)
    expect(before?.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
    expect(Object.keys(before ?? {})).toEqual(['id', 'object', 'created', 'model', 'choices'])
    expect([last?.choices, last?.usage]).toEqual([[], nodeUsage])
    expect(Object.keys(last ?? {})).toEqual(['id', 'object', 'created', 'model', 'choices', 'usage', 'svc'])
  })

  test('the delta and logprobs of the finish chunk are kept, both ways', async () => {
    const logprobs = { content: [] }
    const choices = [{ index: 0, delta: { content: ' the end' }, finish_reason: 'length', logprobs }]
    for (const options of [{}, askUsage]) {
      const { chunks, content } = await pool.streamed(
        writes(role, text('This is'), { ...finish, choices }, usage, done),
        options,
      )
      expect(content).toBe('This is the end')
      expect(chunks.find((chunk) => chunk.choices[0]?.finish_reason === 'length')?.choices).toEqual(choices)
    }
  })

  test('svc: six fields, and the receipt is in the database', async () => {
    const arriving = pool.node.next()
    const asking = pool.ask()
    const call = await arriving
    call.open()
    await call.event(role)
    const response = await asking
    const reader = new EventStreamReader(response)
    await reader.chunk()
    await lasts(60)
    await call.event(text('x'))
    await reader.chunk()
    await lasts(60)
    await call.event(finish)
    await call.event(usage)
    call.end()
    const last = await reader.chunk()
    const svc = last.svc ?? {}
    expect(Object.keys(svc).sort()).toEqual(
      ['latency_ms', 'receipt_hash', 'request_id', 'runtime_id', 'runtime_kind', 'ttft_ms'].sort(),
    )
    expect(svc.request_id).toBe(response.headers.get('x-request-id'))
    expect(svc.runtime_kind).toBe('openai')
    // To the first content, not to the role.
    expect(Number(svc.ttft_ms)).toBeGreaterThanOrEqual(50)
    expect(Number(svc.latency_ms) - Number(svc.ttft_ms)).toBeGreaterThanOrEqual(50)
    const [row] = await waitFor('the receipt', async () => {
      const rows = await pool.gateway.database
        .sql`select * from receipts where receipt_hash = ${String(svc.receipt_hash)}`
      return rows.length > 0 ? [...rows] : null
    })
    expect(row).toMatchObject({ request_id: svc.request_id, prompt_tokens: 9, completion_tokens: 2, model_id: 'm' })
  })
})

describe('§5, §6: usage', () => {
  const estimate = Math.ceil(3 + 4 + 0.3 * prompt.length)
  const usageOf = ({ last }: Pick<ReadStream, 'last'>) => [last.usage, last.svc?.usage_estimated]
  const other = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }

  test.each([
    ['on the finish chunk', [role, text('a'), { ...finish, usage: nodeUsage }, done]],
    ['on a chunk of its own', [role, text('a'), finish, usage, done]],
    ['after [DONE] was forgotten', [role, text('a'), finish, usage]],
    [
      'on a chunk that still has a choice',
      [role, text('a'), finish, { ...nodeChunk({}, 'stop'), usage: nodeUsage }, done],
    ],
    ['twice, the first one counts', [role, text('a'), finish, usage, { ...usage, usage: other }, done]],
    [
      'as a running count, the last one counts',
      [role, { ...text('a'), usage: other }, { ...text('b'), usage: other }, finish, usage, done],
    ],
    ['before the finish chunk only', [role, { ...text('a'), usage: nodeUsage }, finish, done]],
  ] as const)('%s', async (_name, blocks) => {
    for (const options of [{}, askUsage]) {
      const stream = await pool.streamed(writes(...blocks), options)
      expect(usageOf(stream)).toEqual([nodeUsage, undefined])
      expect(stream.chunks.filter((chunk) => chunk.usage !== undefined)).toHaveLength(1)
      expect(stream.done).toBe(true)
    }
  })

  test('late, within the time for it', async () => {
    for (const options of [{}, askUsage]) {
      const stream = await pool.streamed(async (call) => {
        call.open()
        for (const chunk of [role, text('a'), finish]) await call.event(chunk)
        await lasts(120)
        await call.event(usage)
        call.end()
      }, options)
      expect(usageOf(stream)).toEqual([nodeUsage, undefined])
    }
  })

  test.each([
    ['absent, [DONE] ends the wait', [role, text('漢字 ab'), finish, done]],
    ['absent, the end of the body ends the wait', [role, text('漢字 ab'), finish]],
    ['nonsense', [role, text('漢字 ab'), { ...finish, usage: { prompt_tokens: 'x' } }, done]],
  ] as const)('%s: estimated, and said so', async (_name, blocks) => {
    for (const options of [{}, askUsage]) {
      // It waits for its usage since before, and still does afterwards.
      const arriving = pool.node.next()
      const earlier = pool.ask(options).then(readStream)
      const call = await arriving
      let ended = false
      void earlier.then(() => {
        ended = true
      })
      call.open()
      for (const chunk of [role, text('a'), finish]) await call.event(chunk)
      const stream = await pool.streamed(writes(...blocks), options)
      expect(ended).toBe(false)
      await call.event(usage)
      call.end()
      expect(usageOf(await earlier)).toEqual([nodeUsage, undefined])
      pool.node.answer(null)
      const spoken = Math.ceil(2.4 + 0.9)
      const told = { prompt_tokens: estimate, completion_tokens: spoken, total_tokens: estimate + spoken }
      expect(usageOf(stream)).toEqual([told, true])
      expect(stream.done).toBe(true)
    }
  })

  test.each([
    ['and comes too late', true],
    ['and never comes', false],
  ])('the node keeps the stream open, %s: estimated after the time for it', async (_name, late) => {
    const arriving = impatient.node.next()
    const asking = impatient.ask()
    const call = await arriving
    call.open()
    const tookMs = stopwatch()
    for (const chunk of [role, text('a'), finish]) await call.event(chunk)
    const stream = await readStream(await asking)
    expect(tookMs()).toBeGreaterThanOrEqual(shortHoldMs - roundingMs)
    expect([stream.last.svc?.usage_estimated, stream.done]).toEqual([true, true])
    if (late) {
      await call.event(usage)
      call.end()
    } else {
      // Nobody listens any more: the gateway lets go of the node.
      await call.gone
    }
  })

  test('reasoning and the texts of tool calls count for the estimate', async () => {
    const calls = [{ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }]
    const blocks = [
      role,
      nodeChunk({ reasoning_content: 'x'.repeat(100) }),
      nodeChunk({ tool_calls: calls }),
      finish,
      done,
    ]
    const { last } = await pool.streamed(writes(...blocks))
    expect(last.usage?.completion_tokens).toBe(Math.ceil(30 + 0.3 * 'cf{}'.length))
  })
})
