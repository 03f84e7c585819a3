import { describe, expect, test } from 'bun:test'
import { expectRefusal } from '../../support/clients/chat-refusal.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import {
  expert,
  type MixturePool,
  secret,
  shareMixturePool,
  synthesize,
  usageOf,
  vote,
} from '../../support/pools/mixture-pool.ts'
import { dayAhead } from '../../support/run/day-ahead.ts'
import { waitLimitMs } from '../../support/run/limits.ts'

/** 0.3 tokens a character, 4 for the message, 3 for the request (§7). */
const prompt = Math.ceil(0.3 * secret.length + 4 + 3)
/** The least budget that can be set. */
const budget = 1_024

let pool: MixturePool
// The day of these tests must not end under them; actors/limits.test.ts holds what midnight does.
await dayAhead()

shareMixturePool(
  (started) => {
    pool = started
  },
  { SVC_MIXTURE_TOKENS_MAX: String(budget), SVC_MIXTURE_EXPERTS_MAX: '2' },
)

const [a, b, c] = [expert('a'), expert('b'), expert('c')]
const exceeded = { status: 400, code: 'mixture_token_budget_exceeded', retry: false } as const
const overQuota = {
  status: 429,
  code: 'daily_token_quota_exceeded',
  type: 'insufficient_quota',
  retry: false,
} as const

const voteTotal = (experts: number, output: number) => experts * (prompt + output)
const synthesisTotal = (experts: number, output: number) =>
  voteTotal(experts, output) + prompt + experts * output + 220 + output

describe('rule 7: the token estimate over all sub-calls against the budget', () => {
  const cases = [
    ['vote of one', vote(a), (output: number) => voteTotal(1, output)],
    ['vote of two', vote(a, b), (output: number) => voteTotal(2, output)],
    ['synthesize of one', synthesize(a), (output: number) => synthesisTotal(1, output)],
    ['synthesize of two', synthesize(a, b), (output: number) => synthesisTotal(2, output)],
  ] as const
  test.each(cases.map((row) => [...row] as const))(
    '%s: exactly the budget passes, a token more does not',
    async (_what, mixture, total) => {
      let most = 1
      while (total(most + 1) <= budget) most++
      await pool.answered(mixture, { body: { max_tokens: most } })
      pool.reset()
      const body = { max_tokens: most + 1 }
      await expectRefusal(await pool.mix(mixture, { body }), exceeded, secret)
      await expectRefusal(await pool.mix(mixture, { body: { ...body, stream: true } }), exceeded, secret)
      expect(pool.calls()).toEqual({})
    },
  )

  test('without max_tokens 1,024 are counted', async () => {
    await expectRefusal(await pool.mix(vote(a)), exceeded, secret)
  })

  test('the prompt counts for every sub-call', async () => {
    const messages = [{ role: 'user', content: `${secret} ${'x'.repeat(1_600)}` }]
    await pool.answered(vote(a), { body: { messages, max_tokens: 50 } })
    await expectRefusal(await pool.mix(vote(a, b), { body: { messages, max_tokens: 50 } }), exceeded, secret)
  })

  test('a single model has no such budget', async () => {
    const body = { model: 'a', messages: [{ role: 'user', content: 'x' }], max_tokens: 5_000 }
    expect((await pool.gateway.chat(pool.customer.key, body)).status).toBe(200)
  })
})

test('the cap of experts is the operator’s', async () => {
  const refusal = { status: 400, code: 'mixture_too_many_experts', retry: false } as const
  await expectRefusal(await pool.mix(vote(a, b, c), { body: { max_tokens: 5 } }), refusal, secret)
  const { svc } = await pool.answered(synthesize(a, b), { body: { max_tokens: 5 } })
  expect(svc.mixture.experts).toHaveLength(3)
})

describe('§13: the day’s quota', () => {
  const taken = async (customerId: string) => {
    const { sql } = pool.gateway.database
    const [row] = (await sql`select taken::int from quota_days where customer_id = ${customerId}`) as unknown as [
      { taken: number } | undefined,
    ]
    return row?.taken ?? 0
  }
  const used = (...names: Parameters<typeof usageOf>[0][]) =>
    names.reduce((sum, name) => sum + usageOf(name).total_tokens, 0)
  const tenant = (quota: number) => pool.tenant({ policy: { daily_token_quota: quota } }, ['a', 'b', 'agg'])

  test('the whole estimate is reserved before a machine is asked', async () => {
    const output = 100
    const total = voteTotal(2, output)
    const { key } = await tenant(total - 1)
    const refused = await pool.mix(vote(a, b), { key, body: { max_tokens: output } })
    await expectRefusal(refused, overQuota, secret)
    expect(pool.calls()).toEqual({})
    // Less of it fits, and the refused one took nothing.
    await pool.answered(vote(a, b), { key, body: { max_tokens: output - 1 } })
  })

  test('and corrected to what was used: one after the other more pass than their estimates allow', async () => {
    const [quota, output] = [1_000, 400]
    const { key, customerId } = await tenant(quota)
    const body = { max_tokens: output }
    const each = used('a')
    const passing = Math.floor((quota - voteTotal(1, output)) / each) + 1
    expect(passing).toBeGreaterThan(quota / voteTotal(1, output))
    for (let round = 0; round < passing; round++) {
      expect((await pool.answered(vote(a), { key, body })).usage.total_tokens).toBe(each)
    }
    await expectRefusal(await pool.mix(vote(a), { key, body }), overQuota, secret)
    expect(await taken(customerId)).toBeGreaterThanOrEqual(passing * each)
    expect(await taken(customerId)).toBeLessThanOrEqual(quota)
  })

  test('at the same time: the estimates together never pass the quota', async () => {
    const output = 100
    const total = voteTotal(2, output)
    const { key } = await tenant(3 * total + 1)
    for (const name of ['a', 'b'] as const) pool.nodes[name].setAnswer({ firstTokenMs: waitLimitMs })
    let refused = 0
    const asked = Array.from({ length: 8 }, async () => {
      const answer = await pool.mix(vote(a, b), { key, body: { max_tokens: output } })
      if (answer.status === 429) refused++
      return answer
    })
    // What one of them does not use lets another pass: none of them ends before all have been looked at.
    await waitFor('five refusals and three at work', () => {
      const { a: atA, b: atB } = pool.calls()
      return refused === 5 && atA === 3 && atB === 3
    })
    for (const name of ['a', 'b'] as const) pool.nodes[name].release()
    const answers = await Promise.all(asked)
    const statuses = await Promise.all(answers.map(async (answer) => [answer.status, await answer.text()] as const))
    expect(statuses.filter(([status]) => status === 200)).toHaveLength(3)
    expect(statuses.filter(([status]) => status === 429)).toHaveLength(5)
    expect(pool.calls()).toEqual({ a: 3, b: 3 })
  })

  test('a mixture that misses its quorum gives back what it did not use', async () => {
    const output = 100
    const { key } = await tenant(voteTotal(2, output) + 10)
    for (const name of ['a', 'b'] as const) pool.nodes[name].setFaults({ kind: 'status500' })
    for (let round = 0; round < 3; round++) {
      const response = await pool.mix(vote(a, b), { key, body: { max_tokens: output } })
      expect([response.status, (await response.text()).includes('mixture_quorum_not_met')]).toEqual([503, true])
    }
  })

  test('a client that leaves gives it back, too', async () => {
    const output = 100
    const { key } = await tenant(voteTotal(2, output) + 10)
    for (const name of ['a', 'b'] as const) pool.nodes[name].setFaults({ kind: 'hang' })
    for (let round = 0; round < 3; round++) {
      const leaving = new AbortController()
      const arrived = pool.nodes.b.nextRequest()
      const gone = pool.nodes.b.nextAbort()
      const asked = pool
        .mix(vote(a, b), { key, body: { max_tokens: output }, signal: leaving.signal })
        .catch(() => null)
      await arrived
      leaving.abort()
      await Promise.all([asked, gone])
    }
    pool.reset()
    await waitFor('the quota to be free again', async () => {
      const response = await pool.mix(vote(a, b), { key, body: { max_tokens: output } })
      await response.text()
      return response.status === 200
    })
  })

  test('rate and concurrency count a mixture as one request', async () => {
    const { key } = await pool.tenant({ policy: { max_concurrency: 1, rate_limit_rpm: 1 } }, ['a', 'b'])
    const body = { max_tokens: 5 }
    await pool.answered(vote(a, b), { key, body })
    const limited = { status: 429, code: 'rate_limited', retry: true } as const
    await expectRefusal(await pool.mix(vote(a, b), { key, body }), limited, secret)
    expect(pool.calls()).toEqual({ a: 1, b: 1 })
  })

  test('without a quota nothing is counted', async () => {
    const { key, customerId } = await pool.tenant({}, ['a', 'b'])
    await pool.answered(vote(a, b), { key, body: { max_tokens: 100 } })
    expect(await taken(customerId)).toBe(0)
  })
})
