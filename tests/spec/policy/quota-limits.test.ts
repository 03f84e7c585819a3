import { afterEach, describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { startTestGateway, type TestCustomer } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitLimitMs } from '../../support/run/limits.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const secret = 'hidden'
const messages = [{ role: 'user', content: secret }]

const gateway = await fixture(startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }))
const node = await fixture(startFakeNode({ models: ['m'] }))

afterEach(() => {
  node.clearFaults()
  node.setAnswer({ chunks: 5, intervalMs: 0 })
})

/** A customer whose own machine is the fake node. */
async function customer(policy: object): Promise<TestCustomer> {
  const made = await gateway.customer({ policy })
  await gateway.node(node.url, { customerId: made.customerId })
  return made
}

const ask = (key: string, more: object = {}) => gateway.chat(key, { model: 'm', messages, ...more })

async function statusOf(answer: Promise<Response>): Promise<number> {
  const response = await answer
  await response.text()
  return response.status
}

const chatInit = (key: string, more: object) => ({
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'm', messages, ...more }),
})

describe('§17: rate_limit_rpm', () => {
  test('so many a minute, told on every answer, then 429 with the time of the next', async () => {
    const { key } = await customer({ rate_limit_rpm: 3 })
    const left: string[] = []
    for (const stream of [false, true, false]) {
      const response = await ask(key, { stream })
      expect(response.status).toBe(200)
      expect(response.headers.get('ratelimit-policy')).toBe('"chat";q=3;w=60')
      left.push(/^"chat";r=(\d+);t=\d+$/.exec(response.headers.get('ratelimit') ?? '')?.[1] ?? '')
      await response.text()
    }
    expect(left).toEqual(['2', '1', '0'])
    const before = node.requests.length
    const { headers } = await expectRefusal(await ask(key), { status: 429, code: 'rate_limited', retry: true }, secret)
    const t = Number(/^"chat";r=0;t=(\d+)$/.exec(headers.get('ratelimit') ?? '')?.[1])
    // 20 s to the next, less what the answers took, and the jitter of a tenth.
    expect(t).toBeGreaterThan(0)
    expect(t).toBeLessThanOrEqual(22)
    expect(headers.get('retry-after')).toBe(String(t))
    expect(node.requests.length).toBe(before)
  })

  test('20 at once: never more than the bucket holds', async () => {
    const { key } = await customer({ rate_limit_rpm: 7 })
    const statuses = await Promise.all(Array.from({ length: 20 }, () => statusOf(ask(key))))
    expect(statuses.filter((status) => status === 200)).toHaveLength(7)
    expect(statuses.filter((status) => status === 429)).toHaveLength(13)
  })

  test('a refusal that needs no machine takes nothing of it; without a limit no header says anything', async () => {
    const { key } = await customer({ rate_limit_rpm: 1 })
    for (const more of [{ model: 'unknown' }, { n: 2 }, { svc: { node_id: 'node_x' } }]) {
      expect(await statusOf(ask(key, more))).toBeGreaterThanOrEqual(400)
    }
    expect(await statusOf(ask(key))).toBe(200)
    expect(await statusOf(ask(key))).toBe(429)
    const free = await customer({})
    const response = await ask(free.key)
    expect(response.headers.get('ratelimit')).toBeNull()
    expect(response.headers.get('ratelimit-policy')).toBeNull()
  })

  test('beside a quota: both are told', async () => {
    const { key } = await customer({ rate_limit_rpm: 5, daily_token_quota: 1_000 })
    const response = await ask(key, { max_tokens: 40 })
    expect(response.headers.get('ratelimit-policy')).toBe('"chat";q=5;w=60, "chat-tokens";q=1000;w=86400')
    expect(response.headers.get('ratelimit')).toMatch(/^"chat";r=4;t=\d+, "chat-tokens";r=\d+;t=\d+$/)
  })
})

describe('§13: max_concurrency', () => {
  const limited = { status: 429, code: 'concurrency_limited', retry: true } as const

  interface HeldStream {
    /** Kept: a response that nobody holds is collected, and its connection closed. */
    readonly response: Response
    leave(): Promise<void>
  }

  /** Streams that have begun. */
  const hold = (key: string, count: number) =>
    Promise.all(
      Array.from({ length: count }, async (): Promise<HeldStream> => {
        const leaving = new AbortController()
        const response = await gateway.chat(key, {}, { signal: leaving.signal, ...chatInit(key, { stream: true }) })
        expect(response.status).toBe(200)
        const leave = async () => {
          const gone = node.nextAbort()
          leaving.abort()
          await gone
        }
        return { response, leave }
      }),
    )

  test('open streams hold their slots; an aborted one frees its slot', async () => {
    const { key } = await customer({ max_concurrency: 3 })
    node.setAnswer({ chunks: 10_000, intervalMs: 50 })
    const held = await hold(key, 3)
    for (const stream of [false, true]) {
      const { headers } = await expectRefusal(await ask(key, { stream }), limited, secret)
      expect(headers.get('retry-after')).toBe('1')
    }
    for (const stream of held.splice(0)) {
      await stream.leave()
      held.push(...(await hold(key, 1)))
      await expectRefusal(await ask(key), limited, secret)
    }
    for (const stream of held) await stream.leave()
    node.setAnswer({ chunks: 1, intervalMs: 0 })
    expect(await statusOf(ask(key))).toBe(200)
  })

  test('20 at once: never more than so many at the node; all of them in turn', async () => {
    const { key } = await customer({ max_concurrency: 4 })
    // No answer begins before those that have no slot are refused.
    node.setAnswer({ firstTokenMs: waitLimitMs })
    const statuses: number[] = []
    const answered = Array.from({ length: 20 }, async () => void statuses.push(await statusOf(ask(key))))
    await waitUntil('16 to be refused', () => statuses.length === 16 && node.stats().openRequests === 4)
    expect(new Set(statuses)).toEqual(new Set([429]))
    node.setAnswer({ firstTokenMs: 0 })
    node.release()
    await Promise.all(answered)
    expect(statuses.slice(16)).toEqual([200, 200, 200, 200])
    for (let i = 0; i < 8; i++) expect(await statusOf(ask(key))).toBe(200)
  })

  test('failures and refusals free their slots', async () => {
    const { key } = await customer({ max_concurrency: 1 })
    for (const fault of [{ kind: 'status500' }, { kind: 'jsonErrorBody' }, { kind: 'dropMidStream' }] as const) {
      node.setFaults({ ...fault, scope: 'chat' })
      for (const stream of [false, true]) {
        const response = await ask(key, { stream })
        expect(response.status).not.toBe(429)
        await response.text()
      }
    }
    node.clearFaults()
    expect(await statusOf(ask(key, { model: 'unknown' }))).toBe(404)
    expect(await statusOf(ask(key))).toBe(200)
  })
})
