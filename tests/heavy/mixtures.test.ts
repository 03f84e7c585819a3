import { afterAll, beforeAll, expect, test } from 'bun:test'
import { waitFor } from '../support/gateways/gateway.ts'
import { spawnGateway } from '../support/gateways/gateway-process.ts'
import { expectHome, type MixturePool, startMixturePool } from '../support/pools/mixture-pool.ts'
import { allReady, atRest, mixtureStorm, type StormOutcome } from '../support/pools/mixture-storm.ts'

const waves = 12
const perWave = 200

let pool: MixturePool
beforeAll(async () => {
  pool = await startMixturePool({ SVC_MIXTURE_DEADLINE_MS: '5000' }, spawnGateway)
})
afterAll(() => pool.stop())

test('200 mixtures at once, again and again, on machines that fail and hang at random', async () => {
  const rows: ({ readonly seed: number } & Readonly<Record<StormOutcome, number>>)[] = []
  for (let seed = 1; seed <= waves; seed++) {
    rows.push({ seed, ...(await mixtureStorm(pool, { seed, mixtures: perWave, everyMs: 15, hangs: true })) })
    pool.reset()
    await waitFor('everything to be at rest', () => atRest(pool))
    await waitFor('all machines to be ready', () => allReady(pool), 60_000)
    expectHome(pool)
  }
  console.table(rows)
  const total = (outcome: StormOutcome) => rows.reduce((sum, row) => sum + row[outcome], 0)
  expect(total('succeeded')).toBeGreaterThan(waves)
  expect(total('degraded')).toBeGreaterThan(waves)
  expect(total('quorum_not_met')).toBeGreaterThan(waves)
  expect(total('own_nodes_only')).toBeGreaterThan(waves)
  expect(total('left')).toBeGreaterThan(waves)
})
