import { describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { MixtureList } from '../../../src/protocol/wire/admin/admin-mixtures.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import {
  answerOf,
  expert,
  type MixturePool,
  secret,
  shareMixturePool,
  synthesize,
  traceEntry,
  unplaced,
  usageOf,
  vote,
  weighted,
} from '../../support/pools/mixture-pool.ts'

let pool: MixturePool
shareMixturePool((started) => {
  pool = started
})

const [a, b] = [expert('a'), expert('b')]

async function listed(query = '', token = pool.gateway.tokens.viewer): Promise<MixtureList> {
  const list = await pool.gateway.admin<MixtureList>('GET', `/v1/admin/mixtures${query}`, undefined, token)
  expect([...Value.Errors(MixtureList, list)]).toEqual([])
  expect(list.count).toBe(list.mixtures.length)
  return list
}
/** The newest, once it is `requestId`. */
const newest = (requestId: string | null, token?: string) =>
  waitFor('the mixture to be listed', async () => {
    const [first] = (await listed('?limit=1', token)).mixtures
    return first?.request_id === requestId ? first : null
  })

/** §32: what gave no answer has no figures, and not those of one that took no time. */
const unmeasured = { latency_ms: null, usage: { total_tokens: null } }

describe('§23: GET /v1/admin/mixtures', () => {
  test('one that succeeded: times, usage, and of each sub-call its machine, request id and receipt', async () => {
    const answer = await pool.answered(synthesize(a, b))
    const shown = await newest(answer.svc.request_id)
    expect(shown).toMatchObject({
      strategy: 'synthesize',
      outcome: 'succeeded',
      code: null,
      degraded: false,
      min_experts: 1,
    })
    expect(shown.experts.map(({ weight }) => weight)).toEqual([1, 1, null])
    expect(shown.usage).toEqual(answer.usage)
    expect(Date.parse(shown.ended_at) - Date.parse(shown.started_at)).toBeGreaterThanOrEqual(0)
    expect(shown.latency_ms).toBeGreaterThanOrEqual(0)
    const traced = shown.experts.map(({ role, model, status, node_id, usage }) => ({
      role,
      model,
      status,
      node_id,
      usage,
    }))
    expect(traced).toEqual((['a', 'b', 'agg'] as const).map((name) => traceEntry(pool, name)))
    const heard = (['a', 'b', 'agg'] as const).map((name) => pool.received(name)[0]?.headers['x-svc-request-id'] ?? '')
    expect(shown.experts.map(({ request_id }) => request_id)).toEqual(heard)
    for (const { receipt_hash } of shown.experts) expect(receipt_hash).toMatch(/^0x[0-9a-f]{64}$/)
    expect(shown.experts.at(-1)?.receipt_hash).toBe(answer.svc.receipt_hash)
  })

  test('degraded, with what failed', async () => {
    pool.nodes.b.setFaults({ kind: 'status500' })
    const answer = await pool.answered(weighted(a, b, expert('nobody-has-it')))
    const shown = await newest(answer.svc.request_id)
    expect(shown).toMatchObject({ outcome: 'degraded', code: null, degraded: true })
    expect(shown.experts).toMatchObject([
      traceEntry(pool, 'a'),
      { ...traceEntry(pool, 'b', { status: 'upstream_error' }), ...unmeasured },
      { ...unplaced('expert', 'nobody-has-it'), ...unmeasured },
    ])
    expect(shown.experts[0]?.latency_ms).toBeGreaterThanOrEqual(0)
    expect(shown.experts.map(({ request_id, receipt_hash }) => [request_id === null, receipt_hash === null])).toEqual([
      [false, false],
      [false, true],
      [true, true],
    ])
  })

  test('a missed quorum', async () => {
    pool.nodes.a.setFaults({ kind: 'status500' })
    const response = await pool.mix(vote(a))
    await response.text()
    const shown = await newest(response.headers.get('x-request-id'))
    expect(shown).toMatchObject({ outcome: 'quorum_not_met', code: 'mixture_quorum_not_met' })
    expect(shown.experts).toMatchObject([{ role: 'expert', model: 'a', status: 'upstream_error', ...unmeasured }])
  })

  test('one that was refused after its configuration had been read: nothing was dispatched', async () => {
    const response = await pool.mix(vote(a, b), { body: { max_tokens: 40_000 } })
    await response.text()
    const shown = await newest(response.headers.get('x-request-id'))
    expect(shown).toMatchObject({ outcome: 'refused', code: 'mixture_token_budget_exceeded', experts: [] })
    expect(shown.usage).toMatchObject({ total_tokens: 0 })
  })

  test('one whose client left', async () => {
    pool.nodes.b.setFaults({ kind: 'hang' })
    const leaving = new AbortController()
    const arrived = pool.nodes.b.nextRequest()
    const asked = pool.mix(vote(a, b), { signal: leaving.signal }).catch(() => null)
    await arrived
    await waitFor('the other to have answered', () => pool.received('a').some(({ outcome }) => outcome === 'finished'))
    leaving.abort()
    await asked
    const shown = await waitFor('the mixture to be listed', async () => {
      const [first] = (await listed('?limit=1')).mixtures
      return first?.outcome === 'cancelled' ? first : null
    })
    expect(shown.usage.total_tokens).toBe(usageOf('a').total_tokens)
  })

  test('newest first; limit from 1 to 1,000', async () => {
    const ids: string[] = []
    for (let made = 0; made < 3; made++) ids.unshift((await pool.answered(vote(a))).svc.request_id)
    await newest(ids[0] ?? '')
    const { mixtures, object } = await listed('?limit=3')
    expect([object, mixtures.map(({ request_id }) => request_id)]).toEqual(['svc.admin.mixture_list', ids])
    expect((await listed('?limit=1000')).count).toBeGreaterThan(3)
    expect((await listed('?limit=2')).count).toBe(2)
    for (const query of ['limit=0', 'limit=1001', 'limit=1e1', 'limit=', 'limit=1&limit=2']) {
      const response = await fetch(`${pool.gateway.url}/v1/admin/mixtures?${query}`, {
        headers: { 'x-svc-admin-token': pool.gateway.tokens.viewer },
      })
      expect([query, response.status, ((await response.json()) as { code: string }).code]).toEqual([
        query,
        400,
        'invalid_parameter',
      ])
    }
  })

  test('the customer is for operators and admins; no text, no key and no address for anybody', async () => {
    const { svc } = await pool.answered(synthesize(a, b))
    const { viewer, operator, admin } = pool.gateway.tokens
    const { customerId, key } = pool.customer
    for (const [token, owner] of [
      [viewer, null],
      [operator, customerId],
      [admin, customerId],
    ] as const) {
      const shown = await newest(svc.request_id, token)
      expect(shown.customer_id).toBe(owner)
      const text = JSON.stringify({ ...shown, customer_id: null })
      const hidden = [secret, key, customerId, ...(['a', 'b', 'agg'] as const).map(answerOf), '127.0.0.1']
      expect(hidden.filter((word) => text.includes(word))).toEqual([])
    }
  })
})
