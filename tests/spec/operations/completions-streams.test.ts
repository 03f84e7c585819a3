import { beforeEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import {
  type Completion,
  choice,
  complete,
  completionModel as model,
  startCompletionGateway,
} from '../../support/gateways/completion-gateway.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const pool = await fixture(startCompletionGateway())
const client = new OpenAI({ apiKey: pool.customer.key, baseURL: `${pool.gateway.url}/v1`, maxRetries: 0 })

beforeEach(() => pool.answerAll(complete))

describe('§28: a stream of several answers', () => {
  test('the SDK gets each text by its index, one finish each, and the usage of all at the end', async () => {
    const texts = ['', '', '', '']
    const finished: number[] = []
    const last: unknown[] = []
    const stream = await client.completions.create({
      model,
      prompt: ['a', 'b'],
      n: 2,
      seed: 1,
      stream: true,
      stream_options: { include_usage: true },
    })
    for await (const chunk of stream) {
      for (const { index, text, finish_reason: reason } of chunk.choices) {
        texts[index] += text
        if (reason !== null) finished.push(index)
      }
      if (chunk.choices.length === 0) last.push(chunk.usage)
    }
    expect(texts).toEqual(['a/1.', 'a/2.', 'b/1.', 'b/2.'])
    expect(finished.sort()).toEqual([0, 1, 2, 3])
    expect(last).toEqual([{ prompt_tokens: 12, completion_tokens: 8, total_tokens: 20 }])
  })

  test('where the usage is not apart, the answer that ends last brings it', async () => {
    const text = await (await pool.ask({ prompt: ['a', 'b'], stream: true })).text()
    const events = text.split('\n\n').filter((event) => event.startsWith('data: {'))
    const told = events.map((event) => JSON.parse(event.slice(6)) as Completion)
    expect(told.filter(({ usage: all }) => all !== undefined)).toMatchObject([
      {
        usage: { total_tokens: 10 },
        choices: [{ finish_reason: 'stop' }],
        svc: { receipt_hashes: [/^0x/, /^0x/].map((hash) => expect.stringMatching(hash)) },
      },
    ])
    expect(told.at(-1)?.usage).toBeDefined()
    expect(new Set(told.map((chunk) => (chunk as unknown as { id: string }).id)).size).toBe(1)
    expect(text).toEndWith('data: [DONE]\n\n')
  })

  test('a node that fails in the middle ends it with one error, and stops the others', async () => {
    const gone: Promise<void>[] = []
    const going = Promise.withResolvers<void>()
    pool.answerAll(async (call) => {
      call.open()
      await call.event({ choices: [choice('x')] })
      if (call.body.prompt === 'b') {
        await going.promise
        return call.cut('reset')
      }
      gone.push(call.gone)
      if (gone.length === 2) going.resolve()
    })
    const text = await (await pool.ask({ prompt: ['a', 'b', 'c'], stream: true })).text()
    expect(text.split('"error":').length - 1).toBe(1)
    expect(text).toContain('The node stopped responding.')
    expect(text).not.toContain('[DONE]')
    await Promise.all(gone)
    await pool.idle()
  })

  test('no node answers at all: a plain error before the status', async () => {
    pool.answerAll((call) => call.respond(500, { error: { message: 'no' } }))
    expect((await pool.refusal({ prompt: ['a', 'b'], stream: true })).slice(0, 2)).toEqual([502, 'upstream_error'])
    await pool.idle()
  })

  test('a client that leaves stops all nodes', async () => {
    const leaving = new AbortController()
    const gone: Promise<void>[] = []
    const everywhere = Promise.withResolvers<void>()
    pool.answerAll(async (call) => {
      call.open()
      await call.event({ choices: [choice('x')] })
      gone.push(call.gone)
      if (gone.length === 3) everywhere.resolve()
    })
    const response = await pool.ask({ prompt: ['a', 'b', 'c'], stream: true }, { signal: leaving.signal })
    await response.body?.getReader().read()
    await everywhere.promise
    leaving.abort()
    await Promise.all(gone)
    await pool.idle()
    const id = response.headers.get('x-request-id')
    await waitFor('the record', async () => {
      const told = await pool.gateway.admin<{ request?: { status: number } }>('GET', `/v1/admin/requests/${id}`)
      return told.request?.status === 499
    })
  })

  test('one call that fails before its first text goes to the other node in silence', async () => {
    let failures = 0
    pool.answerAll((call) => (call.body.prompt === 'b' && failures++ === 0 ? call.respond(503, {}) : complete(call)))
    const text = await (await pool.ask({ prompt: ['a', 'b'], stream: true })).text()
    expect(text).toContain('b/-')
    expect(text).not.toContain('"error"')
    expect(failures).toBe(2)
  })
})
