import { afterEach, describe, expect, test } from 'bun:test'
import type { Static } from '@sinclair/typebox'
import OpenAI from 'openai'
import { startSealDoor } from '../../../src/cli/seal/seal-door.ts'
import type { ChatCompletion } from '../../../src/protocol/wire/inference/chat.ts'
import { startSealedPool } from '../../support/pools/sealed-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const messages = [{ role: 'user' as const, content: 'a question that only nodes read' }]
const text = 'fake-0 fake-1 fake-2 '
const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }]

const pool = await fixture(startSealedPool({ answer: { chunks: 3 } }))
const door = await fixture(
  startSealDoor({
    ...{ hostname: '127.0.0.1', port: 0, padding: true, pins: { trusts: () => true } },
    ...{ gateway: pool.gateway.url, key: pool.customer.key },
  }),
)

afterEach(() => {
  for (const server of pool.servers) server.clearFaults()
})

async function ask(mixture: unknown, more: object = {}) {
  const body = { model: 'label', messages, ...more, svc: { mixture, ...((more as { svc?: object }).svc ?? {}) } }
  const post = { method: 'POST', body: JSON.stringify(body) }
  const response = await fetch(`${door.url}/v1/chat/completions`, post)
  const answer = (await response.json()) as Static<typeof ChatCompletion> & {
    readonly error: { readonly code: string }
  }
  return { status: response.status, answer, trace: answer.svc?.mixture }
}
const both = [{ model: 'm-t' }, { model: 'm-d', weight: 2 }]
const counts = () => pool.servers.map(({ requests }) => requests.length)

describe('§38: mixtures run at the door, each call sealed for its own node', () => {
  test('vote and weighted: each expert is asked once, and the answer is one of theirs', async () => {
    for (const strategy of ['vote', 'weighted']) {
      const before = counts()
      const { answer, trace } = await ask({ strategy, experts: both })
      expect(answer).toMatchObject({
        object: 'chat.completion',
        model: 'label',
        choices: [{ message: { content: text } }],
      })
      expect(counts().map((count, at) => count - (before[at] ?? 0))).toEqual([1, 1])
      expect(trace).toMatchObject({ strategy, degraded: false, experts: [{ status: 'ok' }, { status: 'ok' }] })
      expect(answer.usage.completion_tokens).toBe(6)
    }
  })

  test('synthesize: the aggregator alone gets tools and the answers of the experts, and its model is named', async () => {
    const { answer, trace } = await ask(
      { strategy: 'synthesize', experts: [{ model: 'm-t' }], aggregator: { model: 'm-d' } },
      { tools },
    )
    expect(answer.model).toBe('m-d')
    expect(answer.choices[0]?.message).toHaveProperty('tool_calls')
    const [expert, aggregator] = pool.servers.map(({ requests }) => requests.at(-1)?.body as Record<string, unknown>)
    expect([expert?.tools, expert?.max_tokens, aggregator?.tools]).toEqual([undefined, 1_024, tools])
    expect(JSON.stringify(aggregator?.messages)).toContain(text.trim())
    expect(trace?.experts.map(({ role, model }) => [role, model])).toEqual([
      ['expert', 'm-t'],
      ['aggregator', 'm-d'],
    ])
  })

  test('the openai client streams one', async () => {
    const client = new OpenAI({ baseURL: `${door.url}/v1`, apiKey: 'unused', maxRetries: 0 })
    const asked = {
      model: 'label',
      messages,
      stream: true as const,
      svc: { mixture: { strategy: 'vote', experts: both } },
    }
    let seen = ''
    for await (const chunk of await client.chat.completions.create(asked)) seen += chunk.choices[0]?.delta.content ?? ''
    expect(seen).toBe(text)
  })

  test('an expert without a node, one that fails, an aggregator that fails: degraded; too few answers: 503', async () => {
    const missing = await ask({ strategy: 'weighted', experts: [{ model: 'm-x', weight: 9 }, { model: 'm-t' }] })
    expect(missing.trace).toMatchObject({ degraded: true, experts: [{ status: 'no_node' }, { status: 'ok' }] })
    pool.servers[1].setFaults({ kind: 'status500' })
    const failed = await ask({ strategy: 'vote', experts: both })
    expect(failed.trace?.experts.map(({ status }) => status)).toEqual(['ok', 'upstream_error'])
    const alone = await ask({ strategy: 'synthesize', experts: [{ model: 'm-t' }], aggregator: { model: 'm-d' } })
    expect([alone.status, alone.answer.choices[0]?.message.content, alone.trace?.degraded]).toEqual([200, text, true])
    const few = await ask({ strategy: 'weighted', experts: both, min_experts: 2 })
    expect([few.status, few.answer.error.code]).toEqual([503, 'mixture_quorum_not_met'])
  })

  test('what a gateway would refuse is refused with the same code, and nothing is asked', async () => {
    const before = counts()
    const codes = await Promise.all(
      [
        ask({ strategy: 'debate', experts: both }),
        ask({ strategy: 'vote', experts: [] }),
        ask({ strategy: 'vote', experts: Array.from({ length: 5 }, () => ({ model: 'm-t' })) }),
        ask({ strategy: 'vote', experts: both }, { svc: { node_id: 'node_1' } }),
        ask({ strategy: 'vote', experts: both }, { messages: 3 }),
      ].map(async (asked) => (await asked).answer.error.code),
    )
    expect(codes).toEqual([
      'mixture_strategy_reserved',
      'mixture_invalid',
      'mixture_too_many_experts',
      'mixture_pin_conflict',
      'invalid_request',
    ])
    expect(counts()).toEqual(before)
  })

  test('a client that leaves stops all experts', async () => {
    for (const server of pool.servers) server.setFaults({ kind: 'stall', afterChunks: 1 })
    const aborted = Promise.all(pool.servers.map((server) => server.nextAbort()))
    const leaving = new AbortController()
    const before = counts()
    const body = JSON.stringify({ model: 'label', messages, svc: { mixture: { strategy: 'vote', experts: both } } })
    const asked = fetch(`${door.url}/v1/chat/completions`, { method: 'POST', body, signal: leaving.signal })
    await waitUntil('both experts are asked', () => counts().every((count, at) => count > (before[at] ?? 0)))
    leaving.abort()
    expect(await asked.then(String, (error: Error) => error.name)).toBe('AbortError')
    expect((await aborted).map(({ outcome }) => outcome)).toEqual(['aborted', 'aborted'])
  })

  test('the gateway has seen sealed chats alone', async () => {
    const path = `/v1/admin/requests?customer_id=${pool.customer.customerId}&limit=100`
    type Listed = { readonly requests: readonly { readonly operation: string }[] }
    const { requests } = await pool.gateway.admin<Listed>('GET', path)
    expect([...new Set(requests.map(({ operation }) => operation))]).toEqual(['sealed_chat'])
  })
})
