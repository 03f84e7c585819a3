import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { PinBook } from '../../../src/cli/seal/pin-book.ts'
import { startSealDoor } from '../../../src/cli/seal/seal-door.ts'
import { startSealedPool } from '../../support/pools/sealed-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const messages = [{ role: 'user' as const, content: 'hello there' }]
const text = 'fake-0 fake-1 fake-2 '
let told: string[] = []

const book = (named: readonly string[] = []) =>
  new PinBook({ env: { HOME: home }, named, tell: (line) => told.push(line) })
const open = (pins = book()) =>
  startSealDoor({
    ...{ hostname: '127.0.0.1', port: 0, padding: true, pins },
    ...{ gateway: pool.gateway.url, key: pool.customer.key },
  })

const pool = await fixture(startSealedPool({ answer: { chunks: 3 } }))
const home = mkdtempSync(join(tmpdir(), 'penstock-seal-'))
const door = await fixture(open())

afterEach(() => {
  for (const server of pool.servers) server.clearFaults()
})
afterAll(() => rmSync(home, { recursive: true }))

describe('§38: unchanged programs through the local door', () => {
  test('openai: whole, streamed with tools, models, a model that nobody has', async () => {
    const client = new OpenAI({ baseURL: `${door.url}/v1`, apiKey: 'unused', maxRetries: 0 })
    expect((await client.chat.completions.create({ model: 'm-1', messages })).choices[0]?.message.content).toBe(text)
    const tools = [{ type: 'function' as const, function: { name: 'look', parameters: { type: 'object' } } }]
    let called = ''
    for await (const chunk of await client.chat.completions.create({ model: 'm-1', messages, tools, stream: true })) {
      called += chunk.choices[0]?.delta.tool_calls?.[0]?.function?.name ?? ''
    }
    expect(called).toBe('look')
    const ids = (await client.models.list()).data.map(({ id }) => id)
    expect(ids).toEqual(expect.arrayContaining(['m-1', 'm-t', 'm-d']))
    const missing = client.chat.completions.create({ model: 'm-x', messages })
    expect(await missing.catch((error: unknown) => error)).toMatchObject({ status: 404, code: 'model_not_found' })
  })

  test('anthropic: whole and streamed', async () => {
    const client = new Anthropic({ baseURL: door.url, apiKey: 'unused', maxRetries: 0 })
    const asked = { model: 'm-1', max_tokens: 50, messages }
    expect((await client.messages.create(asked)).content).toMatchObject([{ text }])
    const stream = client.messages.stream(asked)
    expect(await stream.finalText()).toBe(text)
    const tools = [{ name: 'look', input_schema: { type: 'object' as const } }]
    const called = await client.messages.stream({ ...asked, tools }).finalMessage()
    expect(called).toMatchObject({ stop_reason: 'tool_use', content: [{ type: 'tool_use', name: 'look' }] })
  })

  test('ollama: chat and prompt, whole and streamed; its list, its version, a name with a tag', async () => {
    const client = new Ollama({ host: door.url })
    expect((await client.chat({ model: 'm-1:latest', messages })).message.content).toBe(text)
    let seen = ''
    for await (const part of await client.generate({ model: 'm-1', prompt: 'hello', stream: true })) {
      seen += part.response
      if (part.done) expect(part.eval_count).toBe(3)
    }
    expect(seen).toBe(text)
    const look = { name: 'look', description: 'looks', parameters: { type: 'object', properties: {} } }
    const called: string[] = []
    const asked = { model: 'm-1', messages, tools: [{ type: 'function', function: look }], stream: true as const }
    for await (const { message } of await client.chat(asked)) {
      for (const call of message.tool_calls ?? []) called.push(call.function.name)
    }
    expect(called).toEqual(['look'])
    expect((await client.list()).models.map(({ name }) => name)).toContain('m-d')
    expect(await client.version()).toHaveProperty('version')
    const missing = await client.chat({ model: 'm-x', messages }).catch((error: unknown) => error)
    expect(missing).toMatchObject({ status_code: 404 })
  })

  test('a program that leaves stops the model server', async () => {
    for (const server of pool.servers) server.setFaults({ kind: 'stall', afterChunks: 2 })
    const aborted = Promise.race(pool.servers.map((server) => server.nextAbort()))
    const client = new OpenAI({ baseURL: `${door.url}/v1`, apiKey: 'unused', maxRetries: 0 })
    const stream = await client.chat.completions.create({ model: 'm-1', messages, stream: true })
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content === 'fake-1 ') break
    await aborted
  })

  test('a web page gets nothing, by its origin or by another name of this computer', async () => {
    const post = (headers: Record<string, string>) =>
      fetch(`${door.url}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ model: 'm-1', messages }),
      })
    expect((await post({ origin: 'https://example.org' })).status).toBe(421)
    expect((await post({ host: 'rebound.example.org' })).status).toBe(421)
    expect((await fetch(`${door.url}/v1/audio/speech`, { method: 'POST', body: '{}' })).status).toBe(404)
    expect((await fetch(`${door.url}/v1/chat/completions`, { method: 'POST', body: '{' })).status).toBe(400)
  })
})

describe('§38: pins', () => {
  test('the first use is shown and remembered, a change is refused', async () => {
    const client = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused', maxRetries: 0 })
    const file = join(home, '.config/penstock/sealed-nodes.json')
    const remembered = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>
    expect(remembered[pool.direct.nodeId]).toBe(pool.direct.node.fingerprint)
    expect(told.join('\n')).toContain(pool.direct.node.fingerprint)
    told = []
    const strange = `SHA256:${'A'.repeat(43)}`
    writeFileSync(file, JSON.stringify({ ...remembered, [pool.direct.nodeId]: strange }))
    const changed = open()
    const refused = client(changed.url).chat.completions.create({ model: 'm-d', messages })
    expect(await refused.catch((error: unknown) => error)).toMatchObject({ status: 502, code: 'node_not_pinned' })
    expect(told.join('\n')).toContain('another identity than before')
    await changed.stop()
    writeFileSync(file, JSON.stringify(remembered))
  })

  test('where the file cannot be written, a node is remembered until the door is closed, and a change is refused', () => {
    const full = mkdtempSync(join(tmpdir(), 'penstock-seal-'))
    mkdirSync(join(full, `.config/penstock/sealed-nodes.json.${process.pid}`), { recursive: true })
    const lines: string[] = []
    const pins = new PinBook({ env: { HOME: full }, named: [], tell: (line) => lines.push(line) })
    const first = `SHA256:${'A'.repeat(43)}`
    expect([pins.trusts('node_1', first), pins.trusts('node_1', first)]).toEqual([true, true])
    expect(pins.trusts('node_1', `SHA256:${'B'.repeat(43)}`)).toBe(false)
    expect(lines[0]).toContain('until this door is closed')
    expect(lines).toHaveLength(2)
    rmSync(full, { recursive: true })
  })

  test('--pin: no other node is asked', async () => {
    const pinned = open(book([pool.tunnelled.node.fingerprint]))
    const client = new OpenAI({ baseURL: `${pinned.url}/v1`, apiKey: 'unused', maxRetries: 0 })
    const before = pool.servers[1].requests.length
    for (let at = 0; at < 3; at++) await client.chat.completions.create({ model: 'm-1', messages })
    expect(pool.servers[1].requests.length).toBe(before)
    const other = client.chat.completions.create({ model: 'm-d', messages })
    expect(await other.catch((error: unknown) => error)).toMatchObject({ code: 'node_not_pinned' })
    await pinned.stop()
  })
})

test('§38: ./penstock seal opens the door until Ctrl-C', async () => {
  const child = Bun.spawn([process.execPath, 'src/cli/main.ts', 'seal', '--listen', '127.0.0.1:0'], {
    env: {
      PATH: process.env.PATH ?? '',
      HOME: home,
      SVC_BASE_URL: pool.gateway.url,
      SVC_GATEWAY_KEY: pool.customer.key,
    },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const reader = child.stdout.getReader()
  let out = ''
  while (!out.includes('Gateway')) out += new TextDecoder().decode((await reader.read()).value)
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(out)?.[0] ?? ''
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused', maxRetries: 0 })
  expect((await client.chat.completions.create({ model: 'm-1', messages })).choices[0]?.message.content).toBe(text)
  child.kill('SIGINT')
  expect(await child.exited).toBe(0)
})
