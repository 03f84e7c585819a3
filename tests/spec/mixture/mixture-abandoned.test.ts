import { describe, expect, test } from 'bun:test'
import type { LoggedRequest } from '../../../src/fake-node/node-log.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import {
  answerOf,
  expert,
  type MemberName,
  type MixtureAnswer,
  type MixtureBody,
  type MixturePool,
  metricLines,
  shareMixturePool,
  startMixturePool,
  synthesize,
  type Trace,
  traceEntry,
  unused,
  vote,
  weighted,
} from '../../support/pools/mixture-pool.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'

/** So long that the moments of it are seconds apart, which is more than a busy machine delays one of them. */
const deadlineMs = 12_000
/** A timer may fire a little early. */
const roundingMs = 20

let pool: MixturePool
shareMixturePool(
  (started) => {
    pool = started
  },
  {
    SVC_MIXTURE_DEADLINE_MS: String(deadlineMs),
    SVC_HEADER_COMMIT_MS: '0',
    SVC_KEEP_ALIVE_MS: '5000',
  },
)

const [a, b, c] = [expert('a'), expert('b'), expert('c')]

async function timed<T>(promise: Promise<T>): Promise<readonly [T, number]> {
  const tookMs = stopwatch()
  return [await promise, tookMs()]
}

/** Everything at rest: no call is in flight on any machine, by the gateway's own counters. */
async function idle(): Promise<boolean> {
  const [flights, requests] = await Promise.all([
    pool.gateway.admin<{ nodes: { in_flight: number }[] }>('GET', '/v1/admin/nodes'),
    metricLines(pool.gateway, 'svc_requests_in_flight'),
  ])
  return flights.nodes.every(({ in_flight }) => in_flight === 0) && requests[''] === 0
}

describe('§7: the wall clock of the whole mixture', () => {
  test('experts of synthesize have 65 % of it, those of the others all but a second; the aggregator the rest', async () => {
    for (const name of ['a', 'd'] as const) pool.nodes[name].setFaults({ kind: 'hang' })
    const sinceMs = stopwatch()
    const asked: { atMs: number | null } = { atMs: null }
    void pool.nodes.agg.nextRequest().then(() => {
      asked.atMs = sinceMs()
    })
    const answered = (mixture: MixtureBody) => timed(pool.answered(mixture))
    const stream = timed(pool.mix({ ...vote(a, b), min_experts: 2 }, { body: { stream: true } }))
    const [[voted, voteMs], [late, lateMs], [stuck, stuckMs], [missed, missedMs]] = await Promise.all([
      answered(vote(a, b)),
      answered(synthesize(a, b)),
      answered({ ...synthesize(b, c), aggregator: { model: 'd' } }),
      stream,
    ])
    const hung = (name: MemberName) => traceEntry(pool, name, { status: 'upstream_error', ...unused })
    const notBefore = (ms: number, expectedMs: number) => expect(ms).toBeGreaterThanOrEqual(expectedMs - roundingMs)
    const shown = ({ choices, svc, model }: MixtureAnswer) => [model, choices[0]?.message.content, svc.mixture]

    // `vote`: all but one second, and the one that answered is the answer.
    notBefore(voteMs, deadlineMs - 1_000)
    expect(shown(voted)).toEqual([
      'council',
      answerOf('b'),
      { strategy: 'vote', degraded: true, experts: [hung('a'), traceEntry(pool, 'b')] },
    ])
    // `synthesize`, an expert hangs: the aggregator is asked at 65 % and answers.
    notBefore(lateMs, deadlineMs * 0.65)
    expect(shown(late)).toEqual([
      'agg',
      answerOf('agg'),
      { strategy: 'synthesize', degraded: true, experts: [hung('a'), traceEntry(pool, 'b'), traceEntry(pool, 'agg')] },
    ])
    notBefore(asked.atMs ?? 0, deadlineMs * 0.65)
    // It answers while the votes still wait for their experts.
    expect(lateMs).toBeLessThan(voteMs)
    // `synthesize`, the aggregator hangs: at the end of the clock the best expert answers.
    notBefore(stuckMs, deadlineMs)
    expect(shown(stuck)).toEqual([
      'd',
      answerOf('b'),
      {
        strategy: 'synthesize',
        degraded: true,
        experts: [traceEntry(pool, 'b'), traceEntry(pool, 'c'), { ...hung('d'), role: 'aggregator' }],
      },
    ])
    // A stream that was silent for longer than any keep-alive: still no byte before the real status.
    notBefore(missedMs, deadlineMs - 1_000)
    const refused = (await missed.json()) as { error: { code: string; message: string; svc: { mixture: Trace } } }
    expect([missed.status, refused.error.code]).toEqual([503, 'mixture_quorum_not_met'])
    expect(refused.error.message).toBe('1 of 2 experts answered; min_experts is 2')
    expect(refused.error.svc.mixture.experts).toEqual([hung('a'), traceEntry(pool, 'b')])
    // What nobody waits for any more was stopped on its machine.
    await waitFor(
      'the hung calls to end',
      () => pool.nodes.a.stats().openRequests + pool.nodes.d.stats().openRequests === 0,
    )
    expect([...pool.received('a'), ...pool.received('d')].map(({ outcome }) => outcome)).toEqual([
      'aborted',
      'aborted',
      'aborted',
      'aborted',
    ])
    await waitFor('an idle gateway', idle)
  })
})

describe('a client that leaves stops every sub-call on its machine', () => {
  const trials = 9
  /** What each machine's hearing of it ended, over several trials; how soon it hears, heavy tests hold. */
  async function leave(
    mixture: MixtureBody,
    at: readonly MemberName[],
    body: object = {},
  ): Promise<readonly LoggedRequest[]> {
    const all: LoggedRequest[] = []
    for (let trial = 0; trial < trials; trial++) {
      const leaving = new AbortController()
      const nodes = at.map((name) => pool.nodes[name])
      const arrived = Promise.all(nodes.map((node) => node.nextRequest()))
      const heard = Promise.all(nodes.map((node) => node.nextAbort()))
      const asked = pool.mix(mixture, { body, signal: leaving.signal }).then(
        () => 'answered',
        () => 'left',
      )
      await arrived
      leaving.abort()
      all.push(...(await heard))
      expect(await asked).toBe('left')
    }
    return all
  }

  const cases: readonly (readonly [string, MixtureBody, readonly MemberName[], object?])[] = [
    ['while the experts run', vote(a, b, c), ['a', 'b', 'c']],
    ['while the experts of a streamed one run', weighted(a, b), ['a', 'b'], { stream: true }],
    ['while one expert is left', vote(a, b), ['b']],
    ['while the aggregator runs', synthesize(a, b), ['agg']],
  ]
  test.each(cases.map((row) => [row[0], row] as const))('%s', async (_when, [, mixture, hanging, body]) => {
    for (const name of hanging) pool.nodes[name].setFaults({ kind: 'hang' })
    const heard = await leave(mixture, hanging, body)
    expect(heard).toHaveLength(trials * hanging.length)
    await waitFor('an idle gateway', idle)
    for (const name of hanging) {
      expect(new Set(pool.received(name).map(({ outcome }) => outcome))).toEqual(new Set(['aborted']))
    }
    // The aggregator is not asked for a client that has left.
    if (!hanging.includes('agg')) expect(pool.calls().agg).toBeUndefined()
  })

  test('what had been answered is metered all the same: its receipts are there', async () => {
    pool.nodes.agg.setFaults({ kind: 'hang' })
    const leaving = new AbortController()
    const arrived = pool.nodes.agg.nextRequest()
    const gone = pool.nodes.agg.nextAbort()
    const asked = pool.mix(synthesize(a, b), { signal: leaving.signal }).catch(() => null)
    await arrived
    leaving.abort()
    await Promise.all([asked, gone])
    const ids = (['a', 'b'] as const).map((name) => pool.received(name)[0]?.headers['x-svc-request-id'] ?? '')
    const { sql } = pool.gateway.database
    await waitFor('both receipts', async () => {
      const rows = await sql`select 1 from receipts where request_id in ${sql(ids)}`
      return rows.length === 2
    })
  })

  test('it counts as 499 and `cancelled`, and as no failure of a machine', async () => {
    const failures = () => metricLines(pool.gateway, 'svc_upstream_failures_total')
    const cancelled = async () =>
      (await metricLines(pool.gateway, 'svc_mixture_total'))['{strategy="vote",outcome="cancelled"}'] ?? 0
    const [failedBefore, cancelledBefore] = [await failures(), await cancelled()]
    for (const name of ['a', 'b'] as const) pool.nodes[name].setFaults({ kind: 'hang' })
    await leave(vote(a, b), ['a', 'b'])
    await waitFor('them to be counted', async () => (await cancelled()) === cancelledBefore + trials)
    expect(await failures()).toEqual(failedBefore)
  })
})

test('a gateway that stops ends what runs: 503 that may be repeated, and every call on its machine', async () => {
  const stopping = await startMixturePool({ SVC_SHUTDOWN_GRACE_MS: '100' })
  stopping.nodes.a.setFaults({ kind: 'hang' })
  const arrived = stopping.nodes.a.nextRequest()
  const gone = stopping.nodes.a.nextAbort()
  const asked = stopping.mix(vote(a, b), { body: { stream: true } })
  await arrived
  const stopped = stopping.gateway.stop()
  const response = await asked
  const { error } = (await response.json()) as { error: { code: string } }
  expect([response.status, error.code]).toEqual([503, 'service_unavailable'])
  expect(response.headers.get('x-should-retry')).toBe('true')
  expect((await gone).outcome).toBe('aborted')
  await stopped
  for (const node of [...Object.values(stopping.nodes), stopping.foreign]) node.stop()
})
