import { describe, expect, test } from 'bun:test'
import {
  firstTokenSeen,
  learnReading,
  loadReported,
  newReading,
  type Work,
  workEnded,
  workPlaced,
} from '../../../src/machines/placement/reading.ts'

const work = (atMs: number, ownMs: number, units = 4_000, change: Partial<Work> = {}): Work => ({
  atMs,
  ownMs,
  lagMs: 0,
  unreadUnits: units,
  matchedBlocks: 0,
  atOnce: true,
  concurrency: 1,
  prompt: { units, blocks: [], first: 1 },
  readMs: null,
  ...change,
})

describe('§29 what first tokens teach', () => {
  test('a backlog is what was placed, corrected by what is seen', () => {
    const reading = newReading('mp_a')
    const [first, second] = [work(1_000, 500), work(1_100, 300)]
    workPlaced(reading, first, true)
    workPlaced(reading, second, true)
    expect(reading.readUntilMs).toBe(1_800)
    firstTokenSeen(reading, first, 2_000)
    expect(reading.readUntilMs).toBe(2_300)
    workEnded(reading, second, true, 2_050)
    expect([reading.readUntilMs, reading.openCalls]).toEqual([2_050, 1])
  })

  test('a whole answer says with its end that its prompt was read, and nothing of those that others wait for', () => {
    const reading = newReading('mp_a')
    const [first, second] = [work(1_000, 500), work(1_000, 300)]
    workPlaced(reading, first, false)
    workPlaced(reading, second, false)
    workEnded(reading, first, false, 1_020)
    expect(reading.readUntilMs).toBe(1_320)
    workEnded(reading, second, false, 1_030)
    expect(reading.readUntilMs).toBe(1_030)
    workPlaced(reading, work(2_000, 400), false)
    workEnded(reading, first, false, 5_000)
    expect(reading.readUntilMs).toBe(2_400)
  })

  test('what a runtime reports is counted less what was ours when it said so, however old that is', () => {
    const reading = newReading('mp_a')
    loadReported(reading, { busy: 3, queued: 0 }, 3)
    expect(reading).toMatchObject({ busyByOthers: 0, queuedByOthers: 0 })
    loadReported(reading, { busy: 4, queued: 5 }, 6)
    expect(reading).toMatchObject({ busyByOthers: 0, queuedByOthers: 3 })
    loadReported(reading, { busy: 4, queued: 2 }, 1)
    expect(reading).toMatchObject({ busyByOthers: 3, queuedByOthers: 2 })
  })

  test('speed is measured from when reading could begin', () => {
    const reading = newReading('mp_a')
    const [first, second] = [work(1_000, 500), work(1_000, 500)]
    workPlaced(reading, first, true)
    workPlaced(reading, second, true)
    firstTokenSeen(reading, first, 2_000)
    firstTokenSeen(reading, second, 3_000)
    learnReading(reading, first, null, 5_000)
    learnReading(reading, second, null, 5_000)
    expect(reading.unitsPerMs).toBe(4)
  })

  test('what the runtime had in its cache was not read', () => {
    const reading = newReading('mp_a')
    const one = work(1_000, 500)
    firstTokenSeen(reading, one, 2_000)
    learnReading(reading, one, 2_000, 5_000)
    expect(reading.unitsPerMs).toBe(2)
  })

  test('short prompts and calls that waited for a slot say nothing of speed', () => {
    const reading = newReading('mp_a')
    const short = work(1_000, 10, 1_023)
    const waited = work(1_000, 10, 9_000, { atOnce: false })
    for (const one of [short, waited]) {
      firstTokenSeen(reading, one, 1_200)
      learnReading(reading, one, null, 5_000)
    }
    expect(reading.unitsPerMs).toBeNull()
    expect(reading.lagMs).toBeGreaterThan(0)
  })

  test('a load is measured from the first call that waited for it', () => {
    const reading = { ...newReading('mp_a'), cold: true }
    const [first, second] = [work(1_000, 0, 100), work(3_000, 0, 100)]
    workPlaced(reading, first, true)
    workPlaced(reading, second, true)
    firstTokenSeen(reading, first, 9_000)
    expect(reading).toMatchObject({ cold: false, loadEwmaMs: 8_000, loadStartedAtMs: null })
  })
})
