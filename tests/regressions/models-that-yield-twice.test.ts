import { expect, test } from 'bun:test'
import { YieldedModels } from '../../src/node/power/yielded-models.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

/** Two model servers with one model each: what they are told, and how often somebody looks at them. */
function computer() {
  const told: string[] = []
  let looks = 0
  const server = (id: string, inFlight: number) => ({
    models: [{ id, loaded: true as boolean }],
    inFlight,
    tell: (wish: string) => {
      told.push(`${wish} ${id}`)
      return true
    },
  })
  const [busy, free] = [server('busy', 1), server('free', 0)]
  const clock = new VirtualClock()
  const models = new YieldedModels(() => {
    looks++
    return [busy, free]
  }, clock)
  const looksOf = async (ms: number) => {
    const before = looks
    await clock.pass(ms)
    return looks - before
  }
  return { told, busy, free, clock, models, looksOf }
}

test('§39: each change of reasons to yield began another round of looks, which all ran on', async () => {
  const { told, busy, free, models, looksOf } = computer()
  models.unload()
  expect(told).toEqual(['unload free'])
  free.models = []
  const alone = await looksOf(10_000)
  for (let change = 0; change < 5; change++) models.unload()
  expect(await looksOf(10_000)).toBe(alone)
  busy.inFlight = 0
  await looksOf(5_000)
  expect(told).toEqual(['unload free', 'unload busy'])
  expect(await looksOf(60_000)).toBe(0)
})

test('§39: a model that still worked when the computer was free again, or its agent ended, was unloaded later', async () => {
  const { told, busy, models, looksOf } = computer()
  models.unload()
  models.keep()
  busy.inFlight = 0
  expect(await looksOf(60_000)).toBe(0)
  expect(told).toEqual(['unload free'])
})
