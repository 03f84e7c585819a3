import { describe, expect, test } from 'bun:test'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeChunk, nodeUsage, type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { leaving } from '../../support/pools/two-owners.ts'
import { fixture } from '../../support/run/fixture.ts'

/** What llama.cpp reports of its work reaches a client that asks for it: numbers, and nothing that names a machine (§35). */
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer(leaving)
const node = await fixture(startScriptedNode('m', 'llama.cpp'))
await gateway.node(node.url, { customerId: customer.customerId })

const times = (predicted: number) => ({ cache_n: 1, prompt_n: 8, prompt_ms: 0.5, predicted_n: predicted })
const leaking = (predicted: number) => ({ ...times(predicted), host: 'rack-7', draft_n: 'secret', predicted_ms: -1 })
const progress = { total: 9, cache: 1, processed: 9, time_ms: 2 }
const messages = [{ role: 'user', content: 'hi' }]

/** What the node was asked last. */
let heard: Readonly<Record<string, unknown>> = {}

/** As llama.cpp writes it: progress with empty chunks, times with each text, times at the end. */
async function streams(
  chunk: (text: string | null, finish: string | null, more: object) => object,
  from: ScriptedNode = node,
) {
  from.answer(async (call) => {
    heard = call.body
    const { timings_per_token: timed, return_progress: read } = call.body
    call.open()
    if (read === true) await call.event(chunk(null, null, { prompt_progress: { ...progress, path: '/srv/x' } }))
    for (let at = 1; at <= 6; at++) {
      await call.event(chunk('a', null, timed === true ? { timings: leaking(at) } : {}))
    }
    await call.event(chunk(null, 'length', { timings: leaking(6) }))
    await call.event({ choices: [], usage: nodeUsage, timings: leaking(6) })
    await call.event('[DONE]')
    call.end()
  })
}
const chatChunk = (text: string | null, finish: string | null, more: object) =>
  nodeChunk(
    text === null ? (finish === null ? { role: 'assistant', content: null } : {}) : { content: text },
    finish,
    more,
  )
const textChunk = (text: string | null, finish: string | null, more: object) => ({
  object: 'text_completion',
  choices: [{ index: 0, text: text ?? '', logprobs: null, finish_reason: finish }],
  ...more,
})

const ask = (path: string, body: object) => postJson(gateway.url + path, customer.key, { model: 'm', ...body })
interface Told {
  readonly choices: readonly { readonly delta?: { content?: string }; readonly text?: string }[]
  readonly timings?: object
  readonly prompt_progress?: object
}
interface Event extends Told {
  readonly type: string
  readonly sequence_number: number
}
async function chunksOf(path: string, body: object): Promise<readonly Told[]> {
  const text = await (await ask(path, { ...body, stream: true })).text()
  expect(text).not.toContain('rack-7')
  expect(text).not.toContain('/srv')
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice('data: '.length)) as Told)
}
const asked = { timings_per_token: true, return_progress: true }

describe('§35: timings and progress', () => {
  test.each([
    ['/v1/chat/completions', { messages }, chatChunk],
    ['/v1/completions', { prompt: 'hi' }, textChunk],
  ] as const)('%s: each chunk has its own, the last one those of the whole', async (path, body, chunk) => {
    await streams(chunk)
    const chunks = await chunksOf(path, { ...body, ...asked })
    expect(chunks.flatMap(({ prompt_progress: told }) => told ?? [])).toEqual([progress])
    const texts = chunks.filter(({ choices: [choice] }) => (choice?.delta?.content ?? choice?.text ?? '') !== '')
    expect(texts.map(({ timings }) => timings)).toEqual([1, 2, 3, 4, 5, 6].map(times))
    expect(chunks.at(-1)?.timings).toEqual(times(6))
  })

  test.each([
    ['/v1/chat/completions', { messages }, chatChunk],
    ['/v1/completions', { prompt: 'hi' }, textChunk],
  ] as const)('%s: nothing of it where it was not asked for', async (path, body, chunk) => {
    await streams(chunk)
    for (const told of await chunksOf(path, body)) {
      expect([told.timings, told.prompt_progress]).toEqual([undefined, undefined])
    }
  })

  test('Responses: progress in events of its own, each text and the end with their times, as llama.cpp has them', async () => {
    await streams(chatChunk)
    const events = (await chunksOf('/v1/responses', { input: 'hi', ...asked })) as unknown as readonly Event[]
    expect(heard).toMatchObject(asked)
    const read = events.filter(({ prompt_progress: told }) => told !== undefined)
    expect(read.map(({ type, prompt_progress: told }) => [type, told])).toEqual([['response.in_progress', progress]])
    const texts = events.filter(({ type }) => type === 'response.output_text.delta')
    expect(texts.map(({ timings }) => timings)).toEqual([1, 2, 3, 4, 5, 6].map(times))
    expect([events.at(-1)?.type, events.at(-1)?.timings]).toEqual(['response.incomplete', times(6)])
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, at) => at))
    for (const told of await chunksOf('/v1/responses', { input: 'hi' })) {
      expect([told.timings, told.prompt_progress]).toEqual([undefined, undefined])
    }
  })

  test('a whole chat, which the node is asked for as a stream, has those of the end', async () => {
    await streams(chatChunk)
    const whole = (await (await ask('/v1/chat/completions', { messages, timings_per_token: true })).json()) as Told
    expect(whole.timings).toEqual(times(6))
    expect((await (await ask('/v1/chat/completions', { messages })).json()) as Told).not.toHaveProperty('timings')
  })

  test('a whole completion, too', async () => {
    const choices = [{ index: 0, text: 'a', logprobs: null, finish_reason: 'stop' }]
    const body = JSON.stringify({ choices, usage: nodeUsage, timings: { ...leaking(1), prompt_per_second: 'huge' } })
    // A number beyond what a double holds would become null, which is no number of llama.cpp's.
    node.answer((call) => call.respond(200, body.replace('"huge"', '1e999')))
    const whole = (await (await ask('/v1/completions', { prompt: 'hi', timings_per_token: true })).json()) as Told
    expect(whole.timings).toEqual(times(1))
    expect((await (await ask('/v1/completions', { prompt: 'hi' })).json()) as Told).not.toHaveProperty('timings')
  })

  test('an answer that goes on with the assistant’s own words is asked for whole, as llama.cpp repeats them only there', async () => {
    let sent: Readonly<Record<string, unknown>> = {}
    node.answer((call) => {
      sent = call.body
      const message = { role: 'assistant', content: 'it is so' }
      call.respond(200, { choices: [{ index: 0, message, finish_reason: 'stop' }], usage: nodeUsage })
    })
    const turns = [...messages, { role: 'assistant', content: 'it is' }]
    const whole = (await (await ask('/v1/chat/completions', { messages: turns })).json()) as object
    expect(sent).not.toHaveProperty('stream')
    expect(whole).toMatchObject({ choices: [{ message: { content: 'it is so' } }] })
  })

  test.each([
    ['/v1/chat/completions', { messages }, chatChunk],
    ['/v1/completions', { prompt: 'hi' }, textChunk],
    ['/v1/completions', { prompt: ['hi', 'ho'] }, textChunk],
    ['/v1/responses', { input: 'hi' }, chatChunk],
  ] as const)(
    '%s: another account’s node reports nothing to the client, streamed or whole: %j',
    async (path, body, chunk) => {
      const theirs = startScriptedNode('theirs', 'llama.cpp')
      const nodeId = await gateway.node(theirs.url, {
        customerId: (await gateway.customer()).customerId,
        visibility: 'public',
        privacyClass: 'public',
      })
      try {
        await streams(chunk, theirs)
        const chunks = await chunksOf(path, { model: 'theirs', ...body, ...asked })
        expect(heard).toMatchObject(asked)
        expect(chunks.length).toBeGreaterThan(6)
        for (const told of chunks) expect([told.timings, told.prompt_progress]).toEqual([undefined, undefined])
        if (chunk === textChunk) {
          const choices = [{ index: 0, text: 'a', logprobs: null, finish_reason: 'stop' }]
          theirs.answer((call) => call.respond(200, { choices, usage: nodeUsage, timings: times(1) }))
        }
        const whole = await ask(path, { model: 'theirs', ...body, ...asked })
        expect(whole.status).toBe(200)
        expect(await whole.json()).not.toHaveProperty('timings')
      } finally {
        await gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`, {})
        theirs.stop()
      }
    },
  )

  test('where another account’s node fails before its first chunk, an own one reports again', async () => {
    const theirs = startScriptedNode('m', 'llama.cpp')
    const nodeId = await gateway.node(theirs.url, {
      customerId: (await gateway.customer()).customerId,
      visibility: 'public',
      privacyClass: 'public',
    })
    try {
      theirs.answer((call) => call.respond(500, { error: { message: 'no' } }))
      await streams(chatChunk)
      for (let asking = 0; asking < 4; asking++) {
        const chunks = await chunksOf('/v1/chat/completions', { messages, ...asked })
        expect(chunks.at(-1)?.timings).toEqual(times(6))
      }
    } finally {
      await gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`, {})
      theirs.stop()
    }
  })
})
