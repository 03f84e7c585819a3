import { describe, expect, test } from 'bun:test'
import { type FleetSpec, LoadingFleet } from './loading-fleet.ts'

const seeds = [1, 2]
const common = { hosts: 3, loadS: 6, callS: 2, planned: true, tellS: 0, lateS: 0, untilS: 600 }
const six: Omit<FleetSpec, 'seed'> = {
  ...common,
  memory: 2_000,
  models: 6,
  slots: 8,
  rates: [{ fromS: 0, perS: [0.5, 0.5, 0.4, 0.3, 0.3, 0.3] }],
}
/** Without the rules of today each of these loaded more than six times, the last two up to 48 times. */
const circumstances = {
  'loads take long, and all is told at once': {},
  'what a machine says of its memory is half a second old': { tellS: 0.5 },
  'loads are as short as a report is old': { loadS: 0.5, tellS: 0.5, callS: 0.3 },
  'first tokens are late on a busy computer': { loadS: 0.5, tellS: 0.5, lateS: 1, callS: 0.3 },
  'loads slow each other, and a report comes after them': { loadS: 0.5, tellS: 1, lateS: 2, callS: 0.3 },
}

describe('§37 three machines with memory for two models each, in virtual time', () => {
  for (const [name, change] of Object.entries(circumstances))
    test(`§37: six models that fit load six times in ten minutes of steady demand: ${name}`, () => {
      for (const planned of [true, false])
        for (const seed of [1, 2, 4, 5, 8]) {
          const fleet = new LoadingFleet({ ...six, ...change, planned, seed }).run()
          expect([seed, planned, fleet.loads]).toEqual([seed, planned, six.models])
          expect(new Set(fleet.inMemory().flat()).size).toBe(six.models)
        }
    })

  for (const seed of seeds)
    test(`§37: a shift of demand is followed within two minutes (${seed})`, () => {
      const rates = [
        { fromS: 0, perS: [0.5, 0.5, 0.5, 0] },
        { fromS: 300, perS: [0, 0, 0, 2] },
      ]
      const shifts = { ...common, memory: 1_000, models: 4, slots: 2, rates, seed }
      const copies = (untilS: number, planned = true) =>
        new LoadingFleet({ ...shifts, untilS, planned })
          .run()
          .inMemory()
          .flat()
          .filter((model) => model === 'm3').length
      // What one of them can serve must be everywhere. Calls alone bring it to one machine, where they wait in line.
      expect([copies(300), copies(430), copies(430, false)]).toEqual([0, 3, 1])
    })
})
