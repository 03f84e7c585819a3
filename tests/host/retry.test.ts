import { expect, test } from 'bun:test'
import { retry } from '../../src/host/loop.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

const backoff = { firstMs: 50, maxMs: 150 }

/** Work that fails until its n-th try, and when it was tried. */
function failing(clock: VirtualClock, succeedsAt: number) {
  const tries: number[] = []
  const work = async () => {
    tries.push(clock.now())
    if (tries.length < succeedsAt) throw new Error(`try ${tries.length}`)
    return 'done'
  }
  return { tries, work }
}

test('tries come after growing waits, until one succeeds', async () => {
  const clock = new VirtualClock()
  const { tries, work } = failing(clock, 6)
  const failures: string[] = []
  const onFailure = (error: unknown, count: number) => failures.push(`${count}: ${error}`)
  const result = retry({ backoff, onFailure, signal: new AbortController().signal, clock })(work)
  await clock.pass(10_000)
  expect(await result).toBe('done')
  expect(tries).toEqual([0, 50, 150, 300, 450, 600])
  expect(failures.at(0)).toBe('1: Error: try 1')
  expect(failures.at(-1)).toBe('5: Error: try 5')
})

test('what succeeds at once waits for nothing', async () => {
  const clock = new VirtualClock()
  const { work } = failing(clock, 1)
  const { signal } = new AbortController()
  expect(await retry({ backoff, onFailure: () => expect.unreachable(), signal, clock })(work)).toBe('done')
  expect(clock.waits).toEqual([])
})

test('what is thrown at a failure ends the tries', async () => {
  const clock = new VirtualClock()
  const { tries, work } = failing(clock, 9)
  const onFailure = (_: unknown, failures: number) => {
    if (failures === 2) throw new Error('for good')
  }
  const result = retry({ backoff, onFailure, signal: new AbortController().signal, clock })(work)
  const failure = result.catch((error: Error) => error.message)
  await clock.pass(10_000)
  expect(await failure).toBe('for good')
  expect(tries).toEqual([0, 50])
})

test('after an abort in the midst of a wait there is one more try, at once', async () => {
  const clock = new VirtualClock()
  const { tries, work } = failing(clock, 9)
  const stopping = new AbortController()
  const result = retry({ backoff, onFailure: () => {}, signal: stopping.signal, clock })(work)
  const failure = result.catch((error: Error) => error.message)
  await clock.pass(60)
  stopping.abort()
  expect(await failure).toBe('try 3')
  expect([tries, clock.waits]).toEqual([[0, 50, 60], []])
})

test('after an abort in the midst of a try there is none', async () => {
  const clock = new VirtualClock()
  const stopping = new AbortController()
  const tries: number[] = []
  const work = async () => {
    tries.push(clock.now())
    stopping.abort()
    throw new Error('cut')
  }
  const result = retry({ backoff, onFailure: () => {}, signal: stopping.signal, clock })(work)
  expect(await result.catch((error: Error) => error.message)).toBe('cut')
  expect(tries).toEqual([0])
})
