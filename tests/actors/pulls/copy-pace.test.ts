import { expect, test } from 'bun:test'
import { CopyPace } from '../../../src/actors/pulls/copy-pace.ts'
import { HeldFlow } from '../../../src/actors/pulls/held-flow.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

const bytesPerSecond = 1_000_000
function paced(busy: () => boolean) {
  const clock = new VirtualClock()
  return { clock, pace: new CopyPace({ bytesPerSecond, isBusy: busy, clock }) }
}

test('§39: beside requests a copy is held for the time that its bytes take at the rate', async () => {
  const { clock, pace } = paced(() => true)
  expect(pace.passed(100_000)).toBe(100)
  await clock.pass(60)
  expect(pace.passed(50_000)).toBe(90)
})

test('§39: two copies share the rate, and time that nothing used is not saved up', async () => {
  const { clock, pace } = paced(() => true)
  expect(pace.passed(100_000)).toBe(100)
  expect(pace.passed(100_000)).toBe(200)
  await clock.pass(10_000)
  expect(pace.passed(100_000)).toBe(100)
})

test('§39: a few bytes are not worth a timer', () => {
  const { pace } = paced(() => true)
  expect([pace.passed(2_000), pace.passed(3_000), pace.passed(1_000)]).toEqual([0, 0, 6])
})

test('§39: while nobody asks anything a copy is not held, and soon after a request neither', async () => {
  let busy = false
  const { clock, pace } = paced(() => busy)
  expect(pace.passed(100_000_000)).toBe(0)
  busy = true
  await clock.pass(60)
  expect(pace.passed(100_000)).toBe(100)
  busy = false
  await clock.pass(500)
  // Between two requests of a conversation.
  expect(pace.passed(100_000)).toBe(100)
  await clock.pass(1_500)
  expect(pace.passed(100_000_000)).toBe(0)
})

test('§39: what holds a flow lets it go only when the reader and the time allow it', async () => {
  const clock = new VirtualClock()
  const told: string[] = []
  const ends = { pause: () => told.push('pause'), resume: () => told.push('resume') }
  let leftMs = 0
  const flow = new HeldFlow(ends, () => leftMs, clock)
  flow.hold(100)
  flow.pause()
  flow.resume()
  expect(told).toEqual(['pause', 'pause'])
  await clock.pass(100)
  expect(told.splice(0)).toEqual(['pause', 'pause', 'resume'])
  flow.hold(100)
  flow.pause()
  await clock.pass(100)
  expect(told).toEqual(['pause', 'pause'])
  flow.resume()
  expect(told.splice(0)).toEqual(['pause', 'pause', 'resume'])
  flow.hold(100)
  flow.stop()
  await clock.pass(1_000)
  expect(told.splice(0)).toEqual(['pause'])
  leftMs = 5_000
  flow.hold(5_000)
  await clock.pass(1_000)
  expect(told).toEqual(['pause'])
  leftMs = 0
  await clock.pass(250)
  expect(told).toEqual(['pause', 'resume'])
})
