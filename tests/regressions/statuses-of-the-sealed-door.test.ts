import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { type SealDoor, startSealDoor } from '../../src/cli/seal/seal-door.ts'
import { framed, splitFrames } from '../../src/protocol/sealed/frames.ts'
import { type HostileRelay, type RelayedAnswer, startHostileRelay } from '../support/clients/hostile-relay.ts'
import { type SealedPool, startSealedPool } from '../support/pools/sealed-pool.ts'

/**
 * Symptom: the door of `penstock seal` answered 200 with an error in it where a gateway had answered 200 with something else, gave whole
 * answers that were changed on their way the status 200 and no end, and cut streams without a word. Cause: it took the status of the
 * gateway's answer for that of the failure, and read nothing of an answer before its own had begun. Fix: only the status of a refusal is
 * passed on, whole answers are opened before they are passed, and a stream that breaks ends with an error in its client's dialect.
 */

const messages = [{ role: 'user' as const, content: 'hello there' }]
const key = 'svc_gateway_test'
const doors: SealDoor[] = []

function doorTo(gateway: string, ofKey = key): SealDoor {
  const pins = { trusts: () => true }
  const door = startSealDoor({ ...{ hostname: '127.0.0.1', port: 0, padding: true }, gateway, key: ofKey, pins })
  doors.push(door)
  return door
}
afterAll(async () => {
  for (const door of doors) await door.stop()
})

const clientsOf = (door: SealDoor) => ({
  openai: new OpenAI({ baseURL: `${door.url}/v1`, apiKey: 'unused', maxRetries: 0 }),
  anthropic: new Anthropic({ baseURL: door.url, apiKey: 'unused', maxRetries: 0 }),
  ollama: new Ollama({ host: door.url }),
})
type Told = Readonly<Record<string, unknown>>
const thrown = (asking: Promise<unknown>): Promise<Told> =>
  asking.then(
    () => ({ status: 'no error' }),
    (error: unknown) => error as Told,
  )

describe('§38: what a gateway answers in the place of its nodes', () => {
  let answer = () => new Response('')
  const gateway = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => answer() })
  afterAll(() => gateway.stop(true))
  const door = doorTo(`http://127.0.0.1:${gateway.port}`)
  const refusal = (status: number, code: string) =>
    Response.json({ code, title: 'No', detail: `No: ${code}` }, { status })
  /** What each client hears: the status, and the word for programs. */
  async function heard(): Promise<readonly (readonly unknown[])[]> {
    const { openai, anthropic, ollama } = clientsOf(door)
    const first = await thrown(openai.chat.completions.create({ model: 'm', messages }))
    const second = await thrown(anthropic.messages.create({ model: 'm', max_tokens: 9, messages }))
    const third = await thrown(ollama.chat({ model: 'm', messages }))
    const { error } = second.error as { readonly error: Told }
    return [
      [first.status, first.code, first.type],
      [second.status, error.type, (error.svc as Told).code],
      [third.status_code],
    ]
  }

  test.each([
    [401, 'invalid_gateway_key', 'authentication_error', 'authentication_error'],
    [403, 'model_forbidden', 'permission_error', 'permission_error'],
    [404, 'model_not_found', 'invalid_request_error', 'not_found_error'],
    [429, 'rate_limited', 'rate_limit_error', 'rate_limit_error'],
    [503, 'no_route_available', 'service_unavailable_error', 'overloaded_error'],
  ])('its refusal has its own status in each dialect: %d %s', async (status, code, openAiType, anthropicType) => {
    answer = () => refusal(status, code)
    expect(await heard()).toEqual([[status, code, openAiType], [status, anthropicType, code], [status]])
  })

  test('what is no answer to the question is 502, whatever its status says', async () => {
    const strange = [
      () => new Response('<html>welcome</html>', { headers: { 'content-type': 'text/html' } }),
      () => Response.json({ data: 3 }),
      () => Response.json({}, { status: 201 }),
      () => new Response(null, { status: 204 }),
    ]
    for (const one of strange) {
      answer = one
      const [openai, anthropic, ollama] = await heard()
      expect([openai, anthropic]).toEqual([
        [502, 'gateway_failed', 'server_error'],
        [502, 'api_error', 'gateway_failed'],
      ])
      expect(ollama).toEqual([502])
    }
  })

  test('nobody there, and somebody who sends it elsewhere: 502 gateway_unreachable', async () => {
    answer = () => new Response(null, { status: 302, headers: { location: 'http://127.0.0.1:1/' } })
    expect((await heard())[0]?.slice(0, 2)).toEqual([502, 'gateway_unreachable'])
    const nobody = clientsOf(doorTo('http://127.0.0.1:1')).openai.models.list()
    expect(await thrown(nobody)).toMatchObject({ status: 502, code: 'gateway_unreachable' })
  })
})

describe('§38: answers of nodes', () => {
  let pool: SealedPool
  let relay: HostileRelay
  let door: SealDoor
  beforeAll(async () => {
    pool = await startSealedPool({ answer: { chunks: 6 } })
    relay = startHostileRelay(pool.gateway.url)
    door = doorTo(relay.url, pool.customer.key)
  })
  afterEach(() => {
    relay.twist = {}
    for (const server of pool.servers) server.clearFaults()
  })
  afterAll(async () => {
    await relay.stop()
    await pool.stop()
  })

  const less = (answer: RelayedAnswer): RelayedAnswer => ({
    ...answer,
    body: new Uint8Array(Buffer.concat((splitFrames(answer.body) ?? []).slice(0, -1).map(framed))),
  })
  const changed = (answer: RelayedAnswer): RelayedAnswer => {
    const at = answer.body.length - 1
    answer.body[at] = (answer.body[at] ?? 0) ^ 1
    return answer
  }
  const clear = (): RelayedAnswer => ({
    status: 200,
    headers: new Headers({ 'content-type': 'application/json' }),
    body: new TextEncoder().encode('{"choices":[{"message":{"content":"mine"}}]}'),
  })

  test('whole ones that were changed, cut off, or are another’s: 502 and the fault, in each dialect', async () => {
    const { openai, anthropic, ollama } = clientsOf(door)
    const cases = [
      [changed, 'answer_changed'],
      [less, 'answer_truncated'],
      [clear, 'answer_not_sealed'],
    ] as const
    for (const [answer, code] of cases) {
      relay.twist = { answer }
      const first = thrown(openai.chat.completions.create({ model: 'm-d', messages }))
      expect(await first).toMatchObject({ status: 502, code })
      const second = await thrown(anthropic.messages.create({ model: 'm-d', max_tokens: 9, messages }))
      expect(second).toMatchObject({ status: 502, error: { error: { svc: { code } } } })
      expect(await thrown(ollama.chat({ model: 'm-d', messages }))).toMatchObject({ status_code: 502 })
    }
  })

  test('streams that were changed or cut off end with an error of their dialect', async () => {
    const { openai, anthropic, ollama } = clientsOf(door)
    for (const [answer, fault, words] of [
      [changed, 'answer_changed', 'changed on its way'],
      [less, 'answer_truncated', 'end of the answer is missing'],
    ] as const) {
      relay.twist = { answer }
      let seen = ''
      const chat = async () => {
        for await (const chunk of await openai.chat.completions.create({ model: 'm-d', messages, stream: true })) {
          seen += chunk.choices[0]?.delta.content ?? ''
        }
      }
      expect(await thrown(chat())).toMatchObject({ code: fault })
      expect(seen).toStartWith('fake-0 ')
      const completion = async () => {
        for await (const _ of await openai.completions.create({ model: 'm-d', prompt: 'hi', stream: true }));
      }
      expect(await thrown(completion())).toMatchObject({ code: fault })
      const response = openai.responses.stream({ model: 'm-d', input: 'hi' }).finalResponse()
      expect(JSON.stringify(await thrown(response))).toContain(fault)
      const message = anthropic.messages.stream({ model: 'm-d', max_tokens: 9, messages }).finalMessage()
      expect(JSON.stringify(await thrown(message))).toContain(fault)
      const lines = async () => {
        for await (const _ of await ollama.chat({ model: 'm-d', messages, stream: true }));
      }
      expect(String((await thrown(lines())).message)).toContain(words)
    }
  })

  test('a node that fails in the middle says why, inside the seal, and nothing is missing', async () => {
    const { openai } = clientsOf(door)
    pool.servers[1].setFaults({ kind: 'dropMidStream', afterChunks: 3 })
    const chat = async () => {
      for await (const _ of await openai.chat.completions.create({ model: 'm-d', messages, stream: true }));
    }
    expect(await thrown(chat())).toMatchObject({ code: 'upstream_error' })
    const url = `${door.url}/v1/chat/completions`
    const raw = await fetch(url, { method: 'POST', body: JSON.stringify({ model: 'm-d', messages, stream: true }) })
    const text = await raw.text()
    expect(text.match(/"error":\{/g)).toHaveLength(1)
    expect(text).not.toContain('answer_truncated')
  })

  test('a node’s refusal inside the seal has its own status in each dialect', async () => {
    const { openai, anthropic, ollama } = clientsOf(door)
    const none = thrown(openai.chat.completions.create({ model: 'm-d', messages: [] }))
    expect(await none).toMatchObject({ status: 400, code: 'invalid_request' })
    const second = thrown(anthropic.messages.create({ model: 'm-d', max_tokens: 9, messages: [] }))
    expect(await second).toMatchObject({ status: 400, error: { error: { type: 'invalid_request_error' } } })
    for (const server of pool.servers) server.setFaults({ kind: 'status500' })
    const failed = await Promise.all([
      thrown(openai.chat.completions.create({ model: 'm-d', messages })),
      thrown(anthropic.messages.create({ model: 'm-d', max_tokens: 9, messages })),
      thrown(ollama.chat({ model: 'm-d', messages })),
    ])
    expect(failed.map(({ status, status_code }) => status ?? status_code)).toEqual([502, 502, 502])
  })
})
