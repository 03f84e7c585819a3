import { describe, expect, test } from 'bun:test'
import type { LoadName } from './fleet/plan.ts'
import type { RuleName } from './fleet/rules.ts'
import { type Outcome, outcomeOf, simulate } from './fleet/simulation.ts'

const known = new Map<string, Outcome>()
const run = (rule: RuleName, load: LoadName): Outcome => {
  const name = `${rule}, ${load}`
  const outcome = known.get(name) ?? simulate(rule, load, 1)
  known.set(name, outcome)
  return outcome
}

describe('§29 eight machines in virtual time', () => {
  const saturated = 'saturated, slots told'
  const ours = () => run('Penstock', saturated).mean

  test('§29: where round robin is saturated, 20 times better than it and than least in flight', () => {
    expect(run('round robin', saturated).mean).toBeGreaterThan(20 * ours())
    expect(run('least in flight', saturated).mean).toBeGreaterThan(20 * ours())
  })

  test("§29: 3 times better than SGLang's rule and llm-d's weights", () => {
    expect(run('SGLang', saturated).mean).toBeGreaterThan(3 * ours())
    expect(run('llm-d', saturated).mean).toBeGreaterThan(3 * ours())
  })

  test('§29: at half load the 95th percentile is 3 times better than staying with a conversation', () => {
    expect(run('sticky', 'half load').p95).toBeGreaterThan(3 * run('Penstock', 'half load').p95)
  })

  test('§29: with caches said to be four times as large as they are, what runtimes report as cached corrects it', () => {
    const meanOf = (rule: RuleName) => outcomeOf(rule, 'caches told four times as large', [1, 2]).mean
    expect(meanOf('sticky')).toBeGreaterThan(2 * meanOf('Penstock'))
  })
})

/** All of them, with five seeds: tests/heavy/fleet.test.ts. */
const quickLoads: readonly LoadName[] = [
  'half load',
  'three quarters, nothing told',
  'speeds of 0.25 to 4',
  'a node that says 64 slots and has 8',
  'small caches',
]

describe('§29 nodes that hide their slots', () => {
  for (const load of quickLoads)
    test(`§29: ${load}: never worse than the best of what others do`, () => {
      const best = Math.min(
        ...(['sticky', 'least in flight', 'P2C', 'SGLang', 'llm-d'] as const).map((rule) => run(rule, load).mean),
      )
      expect(run('Penstock', load).mean).toBeLessThan(1.05 * best)
    })

  test('§29: a hidden number of slots costs less than a tenth more than a told one', () => {
    expect(run('Penstock', 'three quarters').mean).toBeLessThan(
      1.1 * run('Penstock', 'three quarters, slots told').mean,
    )
  })
})
