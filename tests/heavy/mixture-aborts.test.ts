import { afterAll, beforeAll, expect, test } from 'bun:test'
import { waitFor } from '../support/gateways/gateway.ts'
import { spawnGateway } from '../support/gateways/gateway-process.ts'
import { leaveOnce, quantile, wayOf } from '../support/pools/abort-trial.ts'
import {
  expectHome,
  expert,
  type MemberName,
  type MixtureBody,
  type MixturePool,
  startMixturePool,
} from '../support/pools/mixture-pool.ts'
import { atRest } from '../support/pools/mixture-storm.ts'

const leavingEach = 500
const abortMsMax = 50

let pool: MixturePool
beforeAll(async () => {
  pool = await startMixturePool({ SVC_MIXTURE_DEADLINE_MS: '60000' }, spawnGateway)
})
afterAll(() => pool.stop())

const three = { strategy: 'vote', experts: [expert('a'), expert('b'), expert('c')] }
const combined = { strategy: 'synthesize', experts: [expert('a'), expert('b')], aggregator: { model: 'agg' } }

/** When the client leaves, of what, and on which machines something runs then. */
const windows: readonly (readonly [string, MixtureBody, readonly MemberName[]])[] = [
  ['while three experts run', three, ['a', 'b', 'c']],
  ['while the third hangs', three, ['c']],
  ['while the aggregator runs', combined, ['agg']],
]

test(`§7: ${leavingEach} clients leave in each window: every sub-call that runs is aborted on its machine`, async () => {
  const rows: Record<string, string | number>[] = []
  for (const [window, mixture, running] of windows) {
    pool.reset()
    for (const name of running) pool.nodes[name].setFaults({ kind: 'hang' })
    const delays: number[] = []
    for (let at = 0; at < leavingEach; at++) {
      const body = { model: 'council', messages: [{ role: 'user', content: 'x' }], svc: { mixture } }
      const nodes = running.map((name) => pool.nodes[name])
      delays.push(...(await leaveOnce({ url: pool.gateway.url, key: pool.customer.key, body, nodes, way: wayOf(at) })))
    }
    await waitFor('everything to be at rest', () => atRest(pool))
    const sorted = delays.toSorted((a, b) => a - b)
    rows.push({
      'client leaves': window,
      mixtures: leavingEach,
      'sub-calls aborted': sorted.length,
      'median ms': quantile(sorted, 0.5).toFixed(2),
      '99 % ms': quantile(sorted, 0.99).toFixed(2),
      'worst ms': quantile(sorted, 1).toFixed(2),
    })
    expect(sorted).toHaveLength(leavingEach * running.length)
    expect(quantile(sorted, 0.99)).toBeLessThanOrEqual(abortMsMax)
    // What nobody had asked for in a window was not asked for after it either.
    if (!running.includes('agg')) expect(pool.calls().agg).toBeUndefined()
    expectHome(pool)
  }
  console.table(rows)
})
