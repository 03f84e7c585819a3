import { expect, test } from 'bun:test'
import { sleep } from '../../src/clock.ts'
import { createNodeWatch, type PollResult } from '../../src/polling/node-watch.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

/** Watches a node that takes `answerMs` to answer, on a clock of its own. */
function virtualWatch({ chance = 0.5, answerMs = 0, isSpared = () => false }) {
  const clock = new VirtualClock()
  const polls: number[] = []
  const results: PollResult[] = []
  const watch = createNodeWatch({
    probe: async (bounded) => {
      polls.push(clock.now())
      await bounded(async (signal) => {
        if (answerMs > 0) await sleep(answerMs, signal, clock)
        signal.throwIfAborted()
      })
      return { kind: 'answered', reports: [] }
    },
    intervalMs: 5_000,
    timeoutMs: 2_000,
    random: () => chance,
    isSpared,
    onResult: async (result) => void results.push(result),
    clock,
  })
  return { clock, polls, results, watch }
}

test.each([
  [0, 4_500],
  [0.25, 4_750],
  [0.5, 5_000],
  [0.75, 5_250],
])('§9: a poll every 5 s ± 10 %%: where chance is %d the next begins after %d ms', async (chance, waitMs) => {
  const { clock, polls, watch } = virtualWatch({ chance, answerMs: 300 })
  await Promise.all([watch.pollNow(), clock.pass(3 * waitMs)])
  expect(polls).toEqual([0, waitMs, 2 * waitMs, 3 * waitMs])
  watch.stop()
})

test('a poll that is asked for joins the one under way', async () => {
  const { clock, polls, results, watch } = virtualWatch({ answerMs: 300 })
  const both = Promise.all([watch.pollNow(), watch.pollNow()])
  await clock.pass(1_000)
  await both
  expect([polls, results.length]).toEqual([[0], 1])
})

test('a node that says that it has changed is polled once more, not sooner than 250 ms after the last time', async () => {
  const { clock, polls, watch } = virtualWatch({ answerMs: 100 })
  void watch.pollNow()
  for (let hints = 0; hints < 5; hints++) {
    watch.pollSoon()
    await clock.pass(20)
  }
  await clock.pass(1_000)
  expect(polls).toEqual([0, 250])
  watch.pollSoon()
  await clock.pass(1_000)
  expect(polls).toEqual([0, 250, 1_100])
})

test('a change during a long poll is asked for after it: the answer may be from before', async () => {
  const { clock, polls, watch } = virtualWatch({ answerMs: 900 })
  void watch.pollNow()
  await clock.pass(500)
  watch.pollSoon()
  await clock.pass(1_000)
  expect(polls).toEqual([0, 900])
})

test('a poll without an answer ends with its time limit, and the next keeps to the rhythm', async () => {
  const { clock, polls, results, watch } = virtualWatch({ answerMs: 60_000 })
  void watch.pollNow()
  await clock.pass(2_000)
  expect(results).toEqual([{ kind: 'failed', code: 'timeout' }])
  await clock.pass(3_000)
  expect(polls).toEqual([0, 5_000])
})

test('after the stop nothing is asked, and nothing is said of what was under way', async () => {
  const { clock, polls, results, watch } = virtualWatch({ answerMs: 300 })
  void watch.pollNow()
  await clock.pass(100)
  watch.stop()
  watch.pollSoon()
  await watch.pollNow()
  await clock.pass(60_000)
  expect([polls, results, clock.waits]).toEqual([[0], [], []])
})

test('§37: a node that another process polls is polled here only where that is asked for, and again when it is to go on', async () => {
  let spared = true
  const { clock, polls, watch } = virtualWatch({ isSpared: () => spared })
  await clock.pass(12_000)
  expect(polls).toEqual([])
  await watch.pollNow()
  await clock.pass(3_000)
  watch.pollSoon()
  await clock.pass(12_000)
  expect(polls).toEqual([12_000, 15_000])
  watch.resume(500)
  await clock.pass(1_000)
  expect(polls).toHaveLength(2)
  spared = false
  watch.resume(500)
  await clock.pass(1_000)
  expect(polls.slice(2)).toEqual([28_500])
})
