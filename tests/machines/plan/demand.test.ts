import { describe, expect, test } from 'bun:test'
import { addedDemand, ModelDemand, rateOf, watchedSpan } from '../../../src/machines/plan/demand.ts'

const startMs = 1_800_000_000_000
const minute = 60_000

/** `perMinute` calls from one minute to another. */
function asked(demand: ModelDemand, fromMinute: number, toMinute: number, perMinute: number): void {
  for (let at = 0; at < (toMinute - fromMinute) * perMinute; at++) {
    demand.add('calls', 1, startMs + fromMinute * minute + (at * minute) / perMinute)
  }
}

const rateAt = (demand: ModelDemand, atMinute: number) => {
  const nowMs = startMs + atMinute * minute
  return rateOf(demand.sums(nowMs), watchedSpan(startMs, nowMs)) * 60
}

describe('§37 demand', () => {
  test('§37: a steady stream has its rate at any time', () => {
    const demand = new ModelDemand(startMs)
    asked(demand, 0, 90, 12)
    for (const at of [90, 90.1, 90.2]) expect(rateAt(demand, at)).toBeWithin(11, 13)
    expect(demand.sums(startMs + 90 * minute).calls).toBeWithin(12 * 59, 12 * 61)
  })

  test('§37: it decays over a quarter of an hour, and chance within a minute is no shift', () => {
    const demand = new ModelDemand(startMs)
    asked(demand, 0, 60, 2)
    expect(rateAt(demand, 62)).toBeWithin(1.6, 2)
    const then = rateAt(demand, 75)
    expect(then).toBeLessThan(1)
    expect(then).toBeGreaterThan(0.5)
  })

  test('§37: a shift is followed within two minutes, up and down', () => {
    const demand = new ModelDemand(startMs)
    asked(demand, 0, 30, 60)
    expect(rateAt(demand, 32)).toBeLessThan(1)
    asked(demand, 40, 42, 60)
    expect(rateAt(demand, 42)).toBeWithin(50, 70)
  })

  test('§37: a process that has just begun has no rate of a thousand', () => {
    const demand = new ModelDemand(startMs)
    demand.add('calls', 1, startMs + 10)
    expect(rateAt(demand, 0.001)).toBeLessThanOrEqual(1.1)
  })

  test('§37: waits and refusals of an hour ago are forgotten, and processes add up', () => {
    const demand = new ModelDemand(startMs)
    for (const [count, by] of [
      ['calls', 1],
      ['waited', 1],
      ['waitMs', 6_000],
      ['turnedAway', 2],
    ] as const)
      demand.add(count, by, startMs)
    const sums = demand.sums(startMs + 59 * minute)
    expect(sums).toMatchObject({ calls: 1, waited: 1, waitMs: 6_000, turnedAway: 2 })
    expect(addedDemand(sums, sums)).toMatchObject({ calls: 2, waited: 2, waitMs: 12_000, turnedAway: 4 })
    expect(demand.sums(startMs + 61 * minute)).toMatchObject({ calls: 0, waited: 0, waitMs: 0, turnedAway: 0 })
    demand.add('calls', 1, startMs + 200 * minute)
    expect(demand.sums(startMs + 200 * minute).calls).toBe(1)
  })
})
