import { beforeAll, describe, expect, test } from 'bun:test'
import { type Outcome, type Plan, type RuleName, simulate } from './fleet.ts'

const loads = {
  half: { rate: 0.5 },
  saturated: { rate: 0.9 },
  slow: { rate: 0.9, noise: 0.4 },
  twice: { rate: 0.9, viewFactor: 2 },
  thoughtHalf: { rate: 0.9, viewFactor: 0.5, corrected: true },
} satisfies Record<string, Partial<Plan>>

const known = new Map<string, Outcome>()
const runs = (rule: RuleName, load: keyof typeof loads, seeds: number): Outcome => {
  const outcomes = Array.from({ length: seeds }, (_, at) => {
    const name = `${rule} ${load} ${at}`
    const outcome = known.get(name) ?? simulate(rule, loads[load], at + 1)
    known.set(name, outcome)
    return outcome
  })
  const mean = (of: (outcome: Outcome) => number) => outcomes.reduce((sum, outcome) => sum + of(outcome), 0) / seeds
  return { mean: mean((one) => one.mean), p95: mean((one) => one.p95), hits: mean((one) => one.hits) }
}

describe('§29 eight machines in virtual time', () => {
  let ours: Outcome
  beforeAll(() => {
    ours = runs('expectedFirstToken', 'saturated', 3)
  })

  test('§29: where round robin is saturated, 20 times better than it and than least in flight', () => {
    expect(runs('roundRobin', 'saturated', 3).mean).toBeGreaterThan(20 * ours.mean)
    expect(runs('leastInFlight', 'saturated', 3).mean).toBeGreaterThan(20 * ours.mean)
  })

  test("§29: 3 times better than SGLang's rule and llm-d's weights", () => {
    expect(runs('sglang', 'saturated', 3).mean).toBeGreaterThan(3 * ours.mean)
    expect(runs('llmD', 'saturated', 3).mean).toBeGreaterThan(3 * ours.mean)
  })

  test('§29: at half load the 95th percentile is 3 times better than going to the last server', () => {
    expect(runs('lastServer', 'half', 10).p95).toBeGreaterThan(3 * runs('expectedFirstToken', 'half', 10).p95)
  })

  test('§29: with speeds that are wrong by 40 %, or caches thought twice as large, 1.5 times better than that', () => {
    const last = runs('lastServer', 'saturated', 3).mean
    expect(last).toBeGreaterThan(1.5 * runs('expectedFirstToken', 'slow', 3).mean)
    expect(last).toBeGreaterThan(1.5 * runs('expectedFirstToken', 'twice', 3).mean)
  })

  test('§29: with caches said to be half as large as they are, what runtimes report as cached corrects it', () => {
    const last = runs('lastServer', 'saturated', 3).mean
    expect(runs('expectedFirstToken', 'thoughtHalf', 3).mean).toBeLessThan(last)
  })
})
