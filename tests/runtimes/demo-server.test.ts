import { expect, test } from 'bun:test'
import { demoModelId } from '../../src/runtimes/demo.ts'
import { type DemoRuntime, startDemoRuntime } from '../../src/runtimes/demo-server.ts'
import { detectRuntime } from '../../src/runtimes/registry.ts'
import { scoped } from '../support/run/fixture.ts'
import { stopwatch } from '../support/run/stopwatch.ts'
import { waitUntil } from '../support/run/wait-until.ts'

async function withDemo<T>(tokensPerSecond: number, body: (demo: DemoRuntime) => Promise<T>): Promise<T> {
  await using demo = await scoped(startDemoRuntime({ tokensPerSecond }))
  return await body(demo)
}

const fast = 100_000

function chat(demo: DemoRuntime, content: unknown, extra: object = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(`${demo.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: demoModelId, messages: [{ role: 'user', content }], ...extra }),
    ...(signal ? { signal } : {}),
  })
}

test('§22: the demo runtime is known by its own sign and its id says what it is', () =>
  withDemo(fast, async (demo) => {
    const get = (path: string) => fetch(`${demo.url}${path}`)
    const module = await detectRuntime(get)
    expect(await module?.probe(get)).toEqual({
      kind: 'demo',
      state: 'ready',
      models: [{ id: 'demo/wordplay', contextLength: 8_192, ready: true, loaded: true }],
      slotsTotal: null,
      slotsFree: null,
      queueDepth: null,
    })
  }))

test('§22: it says that it is a demo text generator and no model, and plays with the words', () =>
  withDemo(fast, async (demo) => {
    const body = await (await chat(demo, 'Hello brave new world')).json()
    const { content } = body.choices[0].message
    expect(content).toStartWith('This is the demo text generator')
    expect(content).toContain('It is not a language model')
    expect(content).toContain('Backwards: world new brave Hello.')
    expect(body).toMatchObject({ object: 'chat.completion', model: demoModelId, choices: [{ finish_reason: 'stop' }] })
    expect(body.usage.total_tokens).toBe(body.usage.prompt_tokens + body.usage.completion_tokens)
    const parts = await (await chat(demo, [{ type: 'text', text: 'one two' }, { type: 'image_url' }])).json()
    expect(parts.choices[0].message.content).toContain('Backwards: two one.')
  }))

test('§6: a stream has a role chunk, one token a chunk, a finish chunk, usage where asked for, and [DONE]', () =>
  withDemo(fast, async (demo) => {
    const whole = await (await chat(demo, 'a b c')).json()
    const text = await (await chat(demo, 'a b c', { stream: true, stream_options: { include_usage: true } })).text()
    const chunks = text
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)))
    expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: '' })
    const content = chunks.slice(1, -2).map((chunk) => chunk.choices[0].delta.content)
    expect(content.join('')).toBe(whole.choices[0].message.content)
    expect(content.length).toBe(whole.usage.completion_tokens)
    expect(chunks.at(-2).choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' })
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: whole.usage })
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(await (await chat(demo, 'a', { stream: true })).text()).not.toContain('"usage"')
  }))

test('max_tokens and stop end the answer early', () =>
  withDemo(fast, async (demo) => {
    const short = await (await chat(demo, 'x', { max_tokens: 3 })).json()
    expect(short).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 3 } })
    const stopped = await (await chat(demo, 'x', { stop: ['never said by it', ' generator'] })).json()
    expect(stopped.choices[0]).toMatchObject({ message: { content: 'This is the demo text' }, finish_reason: 'stop' })
  }))

test('§28: a completion is answered as a chat with the same words, whole and as a stream', () =>
  withDemo(fast, async (demo) => {
    const complete = (more: object) =>
      fetch(`${demo.url}/v1/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: demoModelId, prompt: 'a b c', ...more }),
      })
    const said = (await (await chat(demo, 'a b c')).json()).choices[0].message.content
    const whole = await (await complete({})).json()
    expect(whole).toMatchObject({ object: 'text_completion', choices: [{ text: said, finish_reason: 'stop' }] })
    const text = await (await complete({ stream: true, stream_options: { include_usage: true } })).text()
    const chunks = text
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)))
    expect(chunks.map(({ choices: [choice] }) => choice?.text ?? '').join('')).toBe(said)
    expect(chunks.at(-2).choices[0]).toMatchObject({ text: '', finish_reason: 'stop' })
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: whole.usage })
    expect((await complete({ prompt: [1, 2] })).status).toBe(400)
  }))

test('what is no chat request is refused', () =>
  withDemo(fast, async (demo) => {
    const post = (body: string) => fetch(`${demo.url}/v1/chat/completions`, { method: 'POST', body })
    expect([(await post('{')).status, (await post('{}')).status]).toEqual([400, 400])
    expect((await fetch(`${demo.url}/v1/embeddings`)).status).toBe(404)
  }))

test('the pace is no faster than it was told', () =>
  withDemo(200, async (demo) => {
    const tookMs = stopwatch()
    await (await chat(demo, 'x', { stream: true, max_tokens: 40 })).text()
    expect(tookMs()).toBeGreaterThan(190)
  }))

test.each([true, false])('§5: a client that leaves ends the answer at once (stream: %p)', (stream) =>
  withDemo(1, async (demo) => {
    const leaving = new AbortController()
    const answer = chat(demo, 'x', { stream }, leaving.signal).catch(() => null)
    if (stream) await (await answer)?.body?.getReader().read()
    await waitUntil('its answer', () => demo.streams === 1)
    leaving.abort()
    await waitUntil('the end of it', () => demo.streams === 0)
    await answer
  }),
)

test('stop ends it with every answer under way', async () => {
  const demo = startDemoRuntime({ tokensPerSecond: 1 })
  const reader = (await chat(demo, 'x', { stream: true })).body?.getReader()
  await reader?.read()
  await demo.stop()
  const drained = async () => {
    while (!(await reader?.read())?.done);
  }
  await expect(drained()).rejects.toThrow()
  await expect(fetch(`${demo.url}/health`)).rejects.toThrow()
})
