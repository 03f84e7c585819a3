import { expect, test } from 'bun:test'
import { waitFor } from '../support/gateways/gateway.ts'
import { expectHome, startMixturePool } from '../support/pools/mixture-pool.ts'
import { atRest, mixtureStorm } from '../support/pools/mixture-storm.ts'
import { fixture } from '../support/run/fixture.ts'

/** Short form; `tests/heavy/mixtures.test.ts` has more of it, in a process of its own. */
const pool = await fixture(startMixturePool())

test('200 mixtures at once on machines that fail at random: each a valid success or the documented error', async () => {
  const outcomes = await mixtureStorm(pool, { seed: 1, mixtures: 200, everyMs: 15, hangs: false })

  console.log(`200 mixtures: ${JSON.stringify(outcomes)}`)
  for (const node of Object.values(pool.nodes)) node.clearFaults()
  await waitFor('everything to be at rest', () => atRest(pool))
  expectHome(pool)
  expect(outcomes.succeeded + outcomes.degraded).toBeGreaterThan(20)
  expect(outcomes.quorum_not_met).toBeGreaterThan(0)
  expect(outcomes.own_nodes_only).toBeGreaterThan(0)
  expect(outcomes.left).toBeGreaterThan(0)
})
