import { describe, expect, test } from 'bun:test'
import { blockUnits } from '../../../src/machines/placement/blocks.ts'
import { CacheView } from '../../../src/machines/placement/cache-view.ts'

const tokensOf = (blocks: number) => (blocks * blockUnits) / 4
const blocksFrom = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)
const promptOf = (first: number, count: number) => ({ blocks: blocksFrom(first, count), units: count * blockUnits })

/** A view of one cache that is said to hold 100 blocks, with three prompts of 40 in it. */
function filled(): CacheView {
  const view = new CacheView()
  view.record('mp_a', promptOf(1_000, 40))
  view.reported('mp_a', tokensOf(100))
  view.record('mp_a', promptOf(2_000, 40))
  view.record('mp_a', promptOf(3_000, 40))
  return view
}
const matched = (view: CacheView, first: number) => view.match(promptOf(first, 40)).unitsOf('mp_a') / blockUnits

describe('§37 caches whose events are heard', () => {
  test('what a full cache holds takes the place of twice what is said, and the oldest are gone', () => {
    const view = filled()
    expect([1_000, 2_000, 3_000].map((first) => matched(view, first))).toEqual([40, 40, 40])
    view.holds('mp_a', tokensOf(80))
    expect(view.capacityOf('mp_a')).toBe(80)
    expect([1_000, 2_000, 3_000].map((first) => matched(view, first))).toEqual([0, 40, 40])
  })

  test('then misses and another report change nothing, until no events are heard', () => {
    const view = filled()
    view.holds('mp_a', tokensOf(80))
    for (let at = 0; at < 20; at++) view.corrected('mp_a', 40, 0)
    view.reported('mp_a', tokensOf(500))
    expect(view.capacityOf('mp_a')).toBe(80)
    view.holds('mp_a', null)
    expect(view.capacityOf('mp_a')).toBe(1_000)
    view.corrected('mp_a', 40, 0)
    expect(view.capacityOf('mp_a')).toBeLessThan(1_000)
  })

  test('tokens are as long as its prompts have shown, within bounds, and short prompts show nothing', () => {
    const capacityAfter = (units: number, tokens: number) => {
      const view = filled()
      for (let at = 0; at < 200; at++) view.measured('mp_a', units, tokens)
      view.holds('mp_a', tokensOf(80))
      return view.capacityOf('mp_a')
    }
    expect(capacityAfter(4_000, 1_000)).toBe(80)
    expect(capacityAfter(2_000, 1_000)).toBe(40)
    expect(capacityAfter(1, 1_000)).toBe(10)
    expect(capacityAfter(2_000_000, 1_000)).toBeWithin(318, 321)
    expect(capacityAfter(100, 200)).toBe(80)
  })

  test('an impossible size stays within the bounds of a view, and of an unknown cache nothing is kept', () => {
    const view = filled()
    view.holds('mp_a', 0)
    expect(view.capacityOf('mp_a')).toBe(1)
    view.holds('mp_a', 2 ** 40)
    expect(view.capacityOf('mp_a')).toBe(16_384)
    view.holds('mp_b', 5)
    view.measured('mp_b', 5, 5_000)
    expect(view.capacityOf('mp_b')).toBe(0)
  })
})
