import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { HistoryWorld, histories } from '../../support/money/histories.ts'

test('§13: whatever two gateways do at once, with connections killed at any statement: Σ is zero at every moment, nobody is overdrawn, E11 is a model', async () => {
  const world = await HistoryWorld.open()
  try {
    await fc.assert(
      fc.asyncProperty(histories, (history) => world.play(history)),
      { numRuns: 16, endOnFailure: true },
    )
  } finally {
    await world.close()
  }
  // Else nothing was put to the test.
  for (const [what, times] of Object.entries(world.seen))
    expect({ what, often: times > 0 }).toEqual({ what, often: true })
})
