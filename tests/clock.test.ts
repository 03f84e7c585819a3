import { expect, test } from 'bun:test'
import { Alarm, sleep, systemClock } from '../src/clock.ts'
import { holdsWithin, NoAnswer, waitAtMost, within } from '../src/deadline.ts'
import { waitLimitMs } from './support/run/limits.ts'
import { stopwatch } from './support/run/stopwatch.ts'
import { VirtualClock } from './support/run/virtual-clock.ts'

const never = new Promise<never>(() => {})

test('an alarm rings once, at the time that was set last', async () => {
  const clock = new VirtualClock()
  const rung: number[] = []
  const alarm = new Alarm(() => rung.push(clock.now()), clock)
  expect(alarm.isSet).toBe(false)
  alarm.set(100)
  await clock.pass(50)
  alarm.set(100)
  expect(alarm.isSet).toBe(true)
  await clock.pass(1_000)
  expect({ rung, set: alarm.isSet }).toEqual({ rung: [150], set: false })
})

test('an alarm that is cleared does not ring', async () => {
  const clock = new VirtualClock()
  const rung: number[] = []
  const alarm = new Alarm(() => rung.push(clock.now()), clock)
  alarm.clear()
  alarm.set(100)
  alarm.clear()
  expect(alarm.isSet).toBe(false)
  await clock.pass(1_000)
  expect(rung).toEqual([])
})

test('an alarm can be set while it rings', async () => {
  const clock = new VirtualClock()
  const rung: number[] = []
  const alarm: Alarm = new Alarm(() => {
    rung.push(clock.now())
    if (rung.length < 3) alarm.set(10)
  }, clock)
  alarm.set(10)
  await clock.pass(1_000)
  expect(rung).toEqual([10, 20, 30])
})

test('a sleep ends after its time, or with its signal', async () => {
  const clock = new VirtualClock()
  const ended: string[] = []
  const stopping = new AbortController()
  void sleep(100, new AbortController().signal, clock).then(() => ended.push(`late at ${clock.now()}`))
  void sleep(100, stopping.signal, clock).then(() => ended.push(`woken at ${clock.now()}`))
  await clock.pass(60)
  stopping.abort()
  await clock.pass(60)
  expect(ended).toEqual(['woken at 60', 'late at 100'])
  await sleep(100, stopping.signal, clock)
  expect(clock.waits).toEqual([])
})

test('what takes too long is given up, and what is in time takes its timer along', async () => {
  const clock = new VirtualClock()
  const late = within(100, never, clock).catch((error: unknown) => error)
  expect(await within(100, Promise.resolve('in time'), clock)).toBe('in time')
  await expect(within(100, Promise.reject(new Error('its own')), clock)).rejects.toThrow('its own')
  await clock.pass(99)
  expect(clock.waits).toEqual([1])
  await clock.pass(1)
  expect(await late).toBeInstanceOf(NoAnswer)
  expect(clock.waits).toEqual([])
})

test('a bounded wait ends with the work, whatever became of it, or with its time', async () => {
  const clock = new VirtualClock()
  await waitAtMost(100, Promise.resolve(), clock)
  await waitAtMost(100, Promise.reject(new Error('ended badly')), clock)
  expect([clock.now(), clock.waits]).toEqual([0, []])
  const waited = waitAtMost(100, never, clock)
  await clock.pass(100)
  await waited
})

test('what must hold is looked at until it does, or until its time is over', async () => {
  let looks = 0
  expect(await holdsWithin(waitLimitMs, 1, () => ++looks === 3)).toBe(true)
  expect(looks).toBe(3)
  expect(await holdsWithin(5, 1, () => false)).toBe(false)
  expect(await holdsWithin(0, 1, () => true)).toBe(true)
})

test('the clock of the system goes on, calls back and can be cancelled', async () => {
  const passedMs = stopwatch()
  const beganMs = systemClock.now()
  const rung = Promise.withResolvers<string>()
  systemClock.after(1, () => rung.resolve('cancelled'), false)()
  systemClock.after(20, () => rung.resolve('rung'), true)
  expect(await rung.promise).toBe('rung')
  expect(passedMs()).toBeGreaterThan(15)
  expect(systemClock.now() - beganMs).toBeGreaterThan(15)
})
