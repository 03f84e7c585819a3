import { describe, expect, test } from 'bun:test'
import { ConcurrencyLimit, callsKept, isLate } from '../../../src/machines/placement/concurrency.ts'
import { seeded } from '../rules/routes.ts'

/** Calls at 1 to `most` at once, of which those beyond `slots` are late, and of the others some by chance. */
function learnt(slots: number, { most = 16, calls = 400, lateByChance = 0, onTimeByChance = 0, seed = 1 } = {}) {
  const random = seeded(seed)
  const concurrency = new ConcurrencyLimit()
  for (let at = 0; at < calls; at++) {
    const now = 1 + Math.floor(random() * most)
    concurrency.learn(now, now > slots ? random() >= onTimeByChance : random() < lateByChance)
  }
  return concurrency
}

describe('§29 how many calls a server answers at once', () => {
  test('none is assumed before first tokens are late', () => {
    expect(new ConcurrencyLimit().limit).toBeNull()
    expect(learnt(64, { most: 48 }).limit).toBeNull()
  })

  for (const slots of [1, 2, 8, 12])
    test(`${slots} where those beyond are late`, () => expect(learnt(slots).limit).toBe(slots))

  test('a few late calls of many tell of no queue, and some that are on time beyond a limit of no other', () => {
    for (const seed of [1, 2, 3]) {
      expect(learnt(64, { lateByChance: 0.05, seed }).limit).toBeNull()
      expect(learnt(8, { lateByChance: 0.05, onTimeByChance: 0.2, seed }).limit).toBe(8)
    }
  })

  test('three calls suffice where all of them were late', () => {
    const concurrency = new ConcurrencyLimit()
    for (const at of [9, 9]) concurrency.learn(at, true)
    expect(concurrency.limit).toBeNull()
    concurrency.learn(9, true)
    expect(concurrency.limit).toBe(8)
  })

  test('calls that are on time beyond it disprove it', () => {
    const concurrency = learnt(8)
    for (let at = 0; at < callsKept; at++) concurrency.learn(16, false)
    expect(concurrency.limit).toBeNull()
  })

  test('where none goes beyond it for long, it grows, by a quarter or one', () => {
    for (const [limit, grown] of [
      [8, 10],
      [1, 2],
    ] as const) {
      const concurrency = new ConcurrencyLimit()
      for (let at = 0; at < 3; at++) concurrency.learn(limit + 1, true)
      for (let at = 1; at < callsKept; at++) concurrency.learn(1, false)
      expect(concurrency.limit).toBe(limit)
      concurrency.learn(1, false)
      expect(concurrency.limit).toBe(grown)
    }
  })

  test('a server that says at two reports in a row that others wait is full with those that it works on', () => {
    const concurrency = new ConcurrencyLimit()
    concurrency.reported(7, 2)
    expect(concurrency.limit).toBeNull()
    concurrency.reported(8, 1)
    expect(concurrency.limit).toBe(8)
    concurrency.reported(6, 0)
    expect(concurrency.limit).toBe(8)
  })

  test('and a server that works on more while none waits is not', () => {
    const concurrency = learnt(8)
    concurrency.reported(12, 0)
    expect(concurrency.limit).toBeNull()
    concurrency.reported(12, 1)
    concurrency.reported(12, 0)
    concurrency.reported(12, 1)
    expect(concurrency.limit).toBeNull()
  })

  test('late is what takes half as long again as its prompt and a quarter of the wait for a slot', () => {
    expect(isLate(1_400, 1_000, 5_000, 5)).toBe(false)
    expect(isLate(1_600, 1_000, 5_000, 5)).toBe(true)
    expect(isLate(1_600, 1_000, 50_000, 5)).toBe(false)
  })
})
