import { describe, expect, test } from 'bun:test'
import {
  evictionMs,
  LoadTimes,
  loadAwaited,
  loadLeftMs,
  loadMsOf,
  loadSeen,
} from '../../../src/machines/placement/loads.ts'
import { newReading } from '../../../src/machines/placement/reading.ts'

describe('§29 what a load costs', () => {
  test('as measured, else as other models take there, as it takes elsewhere, as any takes anywhere, else by its size', () => {
    const all = new LoadTimes(null)
    const [here, there] = [new LoadTimes(all), new LoadTimes(all)]
    const reading = newReading('mp_a', here)
    expect(loadMsOf(reading, null)).toBe(15_000)
    reading.sizeBytes = 4e9
    expect(loadMsOf(reading, null)).toBe(4_000)
    there.measured(7_000)
    expect(loadMsOf(reading, null)).toBe(7_000)
    expect(loadMsOf(reading, 6_000)).toBe(6_000)
    here.measured(5_000)
    expect(loadMsOf(reading, 6_000)).toBe(5_000)
    Object.assign(reading, { cold: true })
    loadAwaited(reading, 1_000)
    loadSeen(reading, 3_000)
    expect(loadMsOf(reading, 6_000)).toBe(2_000)
    expect(here.meanMs).toBeCloseTo(4_400)
  })

  test('a size that no disk has is bounded', () => {
    const reading = { ...newReading('mp_a'), sizeBytes: Number.MAX_SAFE_INTEGER }
    expect(loadMsOf(reading, null)).toBe(600_000)
  })

  test('a model that gives way costs its users its next load, and that for each call that they make meanwhile', () => {
    const reading = { ...newReading('mp_a'), loadEwmaMs: 3_000 }
    expect(evictionMs(reading, 1_000)).toBe(0)
    // Asked for once, it will be asked for again.
    loadAwaited(reading, 1_000)
    expect(evictionMs(reading, 1_000)).toBe(3_000)
    for (let at = 1; at < 20; at++) loadAwaited(reading, 1_000 + at * 600)
    const lastMs = 1_000 + 19 * 600
    expect(evictionMs(reading, lastMs)).toBe(3_000 + 3_000 * 5)
    // The longer it was not asked, the fewer are expected.
    expect(evictionMs(reading, lastMs + 30_000)).toBeCloseTo(3_000 + 300)
    expect(evictionMs(reading, lastMs + 6_000_000)).toBeCloseTo(300 + 1.5)
    const cold = { ...newReading('mp_b'), cold: true, loadEwmaMs: 2_000, evictedWaitMs: 300 }
    expect(loadLeftMs(cold, null, 1_000)).toBe(2_300)
    loadAwaited(cold, 1_000)
    expect(loadLeftMs(cold, null, 1_500)).toBe(1_500)
  })
})
