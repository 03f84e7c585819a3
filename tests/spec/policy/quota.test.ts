import { afterEach, describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { secondsToUtcMidnight } from '../../../src/time.ts'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway, type TestCustomer } from '../../support/gateways/gateway.ts'
import { dayAhead } from '../../support/run/day-ahead.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const secret = 'hidden'
const messages = [{ role: 'user', content: secret }]
/** 0.3 tokens a character, 4 for the message, 3 for the request (§7). */
const promptEstimate = Math.ceil(0.3 * secret.length + 4 + 3)

// The day of these tests must not end under them; actors/limits.test.ts holds what midnight does.
await dayAhead()
const gateway = await fixture(
  startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_TTFT_TIMEOUT_MS: '6000' } }),
)
const node = await fixture(startFakeNode({ models: ['m', 'long'] }))

afterEach(() => {
  node.clearFaults()
  node.setAnswer({ usage: null, chunks: 5, intervalMs: 0 })
})

/** A customer whose own machine is the fake node. */
async function customer(policy: object): Promise<TestCustomer> {
  const made = await gateway.customer({ policy })
  await gateway.node(node.url, { customerId: made.customerId })
  return made
}

const ask = (key: string, more: object = {}) => gateway.chat(key, { model: 'm', messages, ...more })

/** What the node says an answer took, in all. */
const using = (total: number) =>
  node.setAnswer({
    usage: { prompt_tokens: promptEstimate, completion_tokens: total - promptEstimate, total_tokens: total },
  })
/** `max_tokens` with which a request reserves so much. */
const reserving = (total: number, more: object = {}) => ({ max_tokens: total - promptEstimate, ...more })

async function statusOf(answer: Promise<Response>): Promise<number> {
  const response = await answer
  await response.text()
  return response.status
}

const quotaExceeded = {
  status: 429,
  code: 'daily_token_quota_exceeded',
  type: 'insufficient_quota',
  retry: false,
} as const

const chatInit = (key: string, more: object) => ({
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'm', messages, ...more }),
})

describe('§13: daily_token_quota', () => {
  test('50 at once, each bounded by max_tokens: exactly the quota is used, streamed or not', async () => {
    const { key, customerId } = await customer({ daily_token_quota: 1_000 })
    using(50)
    const before = node.requests.length
    const statuses = await Promise.all(
      Array.from({ length: 50 }, (_, at) => statusOf(ask(key, reserving(50, { stream: at % 2 === 1 })))),
    )
    expect(statuses.filter((status) => status === 200)).toHaveLength(20)
    expect(statuses.filter((status) => status === 429)).toHaveLength(30)
    expect(node.requests.length - before).toBe(20)
    await expectRefusal(await ask(key, reserving(50)), quotaExceeded, secret)
    const [{ taken }] = (await gateway.database.sql`
      select taken::int from quota_days where customer_id = ${customerId}`) as unknown as [{ taken: number }]
    expect(taken).toBe(1_000)
  })

  test('two keys of one account share it, another account does not', async () => {
    const first = await customer({ daily_token_quota: 100 })
    const other = await customer({ daily_token_quota: 100 })
    const path = `/v1/admin/customers/${first.customerId}/keys`
    const second = await gateway.admin<{ gateway_key: string }>('POST', path, { name: 'second' })
    using(60)
    expect(await statusOf(ask(first.key, reserving(60)))).toBe(200)
    expect(await statusOf(ask(second.gateway_key, reserving(60)))).toBe(429)
    expect(await statusOf(ask(other.key, reserving(60)))).toBe(200)
    expect(await statusOf(ask(second.gateway_key, reserving(40)))).toBe(200)
  })

  test('what was reserved and not used returns with the answer', async () => {
    const { key } = await customer({ daily_token_quota: 1_000 })
    using(20)
    // 900 are reserved each time and 20 stay used: the sixth finds exactly 900, the seventh 880.
    for (let i = 0; i < 6; i++) expect(await statusOf(ask(key, reserving(900)))).toBe(200)
    await expectRefusal(await ask(key, reserving(900)), quotaExceeded, secret)
    // What still fits is served, at once.
    expect(await statusOf(ask(key, reserving(880)))).toBe(200)
  })

  test('a stream too: with its end', async () => {
    const { key } = await customer({ daily_token_quota: 1_000 })
    using(20)
    for (let i = 0; i < 6; i++) {
      const stream = await readStream(await ask(key, reserving(900, { stream: true })))
      expect(stream.done).toBe(true)
    }
    expect(await statusOf(ask(key, reserving(900)))).toBe(429)
  })

  test('refusal: insufficient_quota, seconds to midnight UTC, no retry, what is left', async () => {
    const { key } = await customer({ daily_token_quota: 100 })
    using(60)
    const first = await ask(key, reserving(60))
    expect(first.status).toBe(200)
    expect(first.headers.get('ratelimit-policy')).toBe('"chat-tokens";q=100;w=86400')
    expect(first.headers.get('ratelimit')).toMatch(/^"chat-tokens";r=\d+;t=\d+$/)
    const most = secondsToUtcMidnight(Date.now())
    const { headers } = await expectRefusal(await ask(key, reserving(60)), quotaExceeded, secret)
    expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(secondsToUtcMidnight(Date.now()))
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(most)
    expect(headers.get('ratelimit')).toMatch(/^"chat-tokens";r=0;t=\d+$/)
  })

  test('failures of the node and refusals take nothing of it', async () => {
    const { key } = await customer({ daily_token_quota: 1_000, max_tokens_per_request: 1_000 })
    for (const fault of [
      { kind: 'status500' },
      { kind: 'status429' },
      { kind: 'status400' },
      { kind: 'jsonErrorBody' },
      { kind: 'failAfter', ms: 0, as: 'reset' },
    ] as const) {
      node.setFaults({ ...fault, scope: 'chat' })
      for (const stream of [false, true]) {
        expect(await statusOf(ask(key, reserving(900, { stream })))).toBeGreaterThanOrEqual(400)
      }
    }
    node.setFaults({ kind: 'hang', times: 1 })
    expect(await statusOf(ask(key, reserving(900, { stream: true })))).toBe(504)
    node.clearFaults()
    for (const more of [{ model: 'unknown' }, { max_tokens: 1_001 }, { n: 2 }, { svc: { node_id: 'node_x' } }]) {
      expect(await statusOf(ask(key, { ...reserving(900), ...more }))).toBeGreaterThanOrEqual(400)
    }
    using(1_000)
    expect(await statusOf(ask(key, reserving(1_000)))).toBe(200)
  })

  test('a stream that is left keeps what it used, and the rest returns', async () => {
    const { key } = await customer({ daily_token_quota: 1_000 })
    node.setAnswer({ chunks: 1_000, intervalMs: 20 })
    const leaving = new AbortController()
    const init = { signal: leaving.signal, ...chatInit(key, reserving(900, { stream: true })) }
    const response = await gateway.chat(key, {}, init)
    const reader = response.body?.getReader()
    await reader?.read()
    const gone = node.nextAbort()
    leaving.abort()
    await gone
    node.setAnswer({ chunks: 5, intervalMs: 0 })
    using(20)
    expect(await statusOf(ask(key, reserving(900)))).toBe(200)
    expect(await statusOf(ask(key, reserving(1_000)))).toBe(429)
  })

  test('without max_tokens a ceiling is injected: 4 096, or what the model can write, or what the policy lets it', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'long', max_output_length: 100 })
    const { key } = await customer({ daily_token_quota: 10_000 })
    const modest = await customer({ daily_token_quota: 10_000, max_tokens_per_request: 50 })
    const told = () => (node.requests.at(-1)?.body as { max_tokens?: number } | undefined)?.max_tokens
    const cases = [
      [key, 'm', 4_096],
      [key, 'long', 100],
      [modest.key, 'm', 50],
      [modest.key, 'long', 50],
    ] as const
    for (const [as, model, ceiling] of cases) {
      expect(await statusOf(ask(as, { model }))).toBe(200)
      expect([model, told()]).toEqual([model, ceiling])
    }
    const small = await customer({ daily_token_quota: 4_000 })
    expect(await statusOf(ask(small.key))).toBe(429)
    expect(await statusOf(ask(small.key, { model: 'long' }))).toBe(200)
  })

  test('a node of others takes no more than was reserved, whatever it reports', async () => {
    const open = { min_privacy_class: 'public' }
    const owner = await gateway.customer()
    await using foreign = await scoped(startFakeNode({ models: ['foreign'] }))
    await gateway.node(foreign.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
    const { key } = await gateway.customer({ policy: { ...open, daily_token_quota: 1_000 }, keyPolicy: open })
    foreign.setAnswer({ usage: { prompt_tokens: 1_000_000, completion_tokens: 1, total_tokens: 1_000_001 } })
    for (const stream of [false, true]) {
      expect(await statusOf(ask(key, reserving(400, { model: 'foreign', stream })))).toBe(200)
    }
    expect(await statusOf(ask(key, reserving(201, { model: 'foreign' })))).toBe(429)
    expect(await statusOf(ask(key, reserving(200, { model: 'foreign' })))).toBe(200)
  })

  test('a node that reports more than was asked for empties the quota, and no more is served', async () => {
    const { key } = await customer({ daily_token_quota: 1_000 })
    using(5_000)
    expect(await statusOf(ask(key, reserving(50)))).toBe(200)
    expect(await statusOf(ask(key, reserving(20)))).toBe(429)
  })
})
