import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { HistoryWorld, histories } from '../../support/money/histories.ts'

/** One in some twenty has no refund, or another of the rare things. */
const roundsMax = 10

test('§13: whatever two gateways do at once, with connections killed at any statement: Σ is zero at every moment, nobody is overdrawn, E11 is a model', async () => {
  const world = await HistoryWorld.open()
  // Else nothing was put to the test.
  let unseen = await world.unseen()
  try {
    for (let round = 0; round < roundsMax && unseen.length > 0; round++) {
      await fc.assert(
        fc.asyncProperty(histories, (history) => world.play(history)),
        { numRuns: 16, endOnFailure: true },
      )
      unseen = await world.unseen()
    }
  } finally {
    await world.close()
  }
  expect(unseen).toEqual([])
})
