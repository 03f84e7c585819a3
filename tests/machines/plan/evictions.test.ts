import { describe, expect, test } from 'bun:test'
import { loadAwaited, loadSeen, noteMemory } from '../../../src/machines/placement/loads.ts'
import { newReading } from '../../../src/machines/placement/reading.ts'
import { type HostedServer, weighEvictions } from '../../../src/machines/plan/evictions.ts'
import { nowMs } from '../rules/routes.ts'

const budgetMb = { memory: 2_000 }

/** Three servers, of which two have room; a load takes 3 s. */
function computer() {
  const readings = ['a', 'b', 'c'].map((id) => ({ ...newReading(id), cold: true, loadEwmaMs: 3_000 }))
  const [a, b, c] = readings as [(typeof readings)[0], (typeof readings)[0], (typeof readings)[0]]
  const weigh = (elsewhere: readonly unknown[] = []) => {
    const servers = readings.map((reading): HostedServer => {
      const model = { reading, inFlight: 0, durationEwmaMs: null, elsewhere: elsewhere.includes(reading) }
      return { id: reading.salt.toString(), memoryMb: { memory: 1_000 }, group: null, pinned: false, models: [model] }
    })
    weighEvictions(servers, budgetMb, nowMs)
    return readings.map(({ evictedWaitMs }) => evictedWaitMs)
  }
  return { a, b, c, weigh }
}

describe('§37 what a load would cost others', () => {
  test('loads that have just begun count before the computer has told of them', () => {
    const { a, b, weigh } = computer()
    expect(weigh()).toEqual([0, 0, 0])
    loadAwaited(a, nowMs)
    expect(weigh()).toEqual([0, 0, 0])
    loadAwaited(b, nowMs)
    // Its users would wait for its next load, and who pushes it out for this one.
    expect(weigh()).toEqual([0, 0, 6_000])
  })

  test('the model that gives way is the one that its agent would choose, and costs nothing if another computer has it', () => {
    const { a, b, weigh } = computer()
    for (const [reading, atMs] of [
      [a, nowMs - 9_000],
      [b, nowMs - 6_000],
    ] as const) {
      loadAwaited(reading, atMs)
      loadSeen(reading, atMs)
    }
    const [, , cost] = weigh()
    expect(cost).toBe(a.loadEwmaMs)
    expect(weigh([a])).toEqual([0, 0, 0])
    expect(weigh([b])).toEqual([0, 0, a.loadEwmaMs])
  })

  test('a report that was asked for before a call saw the model in memory does not take it away', () => {
    const { a } = computer()
    loadAwaited(a, nowMs)
    loadSeen(a, nowMs + 3_000)
    noteMemory(a, false, false, nowMs + 3_100, nowMs + 2_900)
    expect(a.cold).toBe(false)
    noteMemory(a, false, false, nowMs + 3_500, nowMs + 3_300)
    expect(a.cold).toBe(true)
  })
})
