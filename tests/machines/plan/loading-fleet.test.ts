import { describe, expect, test } from 'bun:test'
import { type FleetSpec, LoadingFleet } from './loading-fleet.ts'

const seeds = [1, 2]
const common = { hosts: 3, loadS: 6, callS: 2, planned: true, untilS: 600 }
const six: Omit<FleetSpec, 'seed'> = {
  ...common,
  memory: 2_000,
  models: 6,
  slots: 4,
  rates: [{ fromS: 0, perS: [0.5, 0.5, 0.4, 0.3, 0.2, 0.1] }],
}

describe('§37 three machines with memory for two models each, in virtual time', () => {
  for (const seed of seeds)
    test(`§37: six models that fit are loaded once in ten minutes of steady demand (${seed})`, () => {
      const fleet = new LoadingFleet({ ...six, seed }).run()
      // While the first calls come, two of them may choose one machine.
      expect(fleet.loads).toBeLessThanOrEqual(six.models + 1)
      expect(fleet.loadedAt.filter(({ atS }) => atS > 60)).toEqual([])
      expect(new Set(fleet.inMemory().flat()).size).toBe(six.models)
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
