import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { blocksMax, blockUnits } from '../../../src/machines/placement/blocks.ts'
import {
  noticeBytesMax,
  noticesOf,
  type PlacementNotice,
  placementsIn,
} from '../../../src/machines/placement/placement-notices.ts'

const ids = 'ABCDEFGHJKMNPQRSTVWXYZ0123456789'
const profile = (at: number) => `mp_${ids[at % ids.length]?.repeat(26)}`
const placement = fc
  .tuple(fc.nat(31), fc.array(fc.maxSafeNat(), { minLength: 1, maxLength: blocksMax }), fc.nat(blockUnits - 1))
  .map(
    ([at, blocks, tail]): PlacementNotice => ({
      profileId: profile(at),
      prompt: { blocks, units: blocks.length * blockUnits + tail },
    }),
  )

describe('§29 what gateways tell each other of their placements', () => {
  test('comes out as it went in, in notices that PostgreSQL takes', () => {
    fc.assert(
      fc.property(fc.array(placement, { maxLength: 40 }), (told) => {
        const notices = noticesOf('me', told, 1_000)
        for (const notice of notices) expect(notice.length).toBeLessThanOrEqual(noticeBytesMax)
        expect(notices.flatMap((notice) => placementsIn(notice, 'another'))).toEqual(told)
        expect(notices.flatMap((notice) => placementsIn(notice, 'me'))).toEqual([])
      }),
      { numRuns: 30 },
    )
  })

  test('is bounded: what comes last is left out', () => {
    const one = { profileId: profile(1), prompt: { blocks: new Array(400).fill(7), units: 400 * blockUnits } }
    const notices = noticesOf('me', new Array<PlacementNotice>(20).fill(one), 3)
    expect(notices).toHaveLength(3)
    expect(notices.flatMap((notice) => placementsIn(notice, 'another')).length).toBeLessThan(20)
  })

  test('whatever stands in a notice, nothing comes out that is no placement', () => {
    const [good = ''] = noticesOf('me', [{ profileId: profile(1), prompt: { blocks: [1, 2], units: 3_000 } }], 1)
    expect(placementsIn(good, 'another')).toHaveLength(1)
    const [, line = ''] = good.split('\n')
    const bad = [
      '',
      'me',
      good.replace('mp_', 'np_'),
      good.replace(' 3000 ', ' 1 '),
      good.replace(' 3000 ', ' 99999999999 '),
      good.replace(' 3000 ', ' -5 '),
      `${good}A`,
      good.slice(0, -1),
      good.replace(/ [\w-]+$/, ` ${'_'.repeat(28)}`),
      good.replace(/ [\w-]+$/, ` ${'A'.repeat(28 * blocksMax)}`),
    ]
    for (const notice of bad) expect(placementsIn(notice, 'another')).toEqual([])
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, after) => {
        for (const { prompt } of placementsIn(`x\n${before}${line}${after}`, 'another')) {
          expect(prompt.blocks.length).toBeLessThanOrEqual(blocksMax)
          expect(prompt.units).toBeGreaterThanOrEqual(prompt.blocks.length * blockUnits)
        }
      }),
    )
  })
})
