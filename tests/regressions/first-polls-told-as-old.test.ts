import { expect, test } from 'bun:test'
import { FirstPolls, firstPollsMax, placeMsMax } from '../../src/polling/first-polls.ts'
import { createNodeWatch, type PollResult } from '../../src/polling/node-watch.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

/**
 * Symptom: at a start with thousands of nodes each process of a computer polled them, though one polls for all.
 * Cause: a first poll waits for its turn, and counted as sent when it began to wait. So the others found it too old.
 * Fix: it counts as sent when its first question is.
 */
test('§8: a poll that waits for its turn goes out when its turn comes', async () => {
  const clock = new VirtualClock()
  const firstPolls = new FirstPolls(clock)
  const sentAt: number[] = []
  const never = new Promise<PollResult>(() => {})
  const watches = Array.from({ length: firstPollsMax + 1 }, (_, at) =>
    createNodeWatch({
      probe: firstPolls.inTurn((bounded) =>
        bounded(async () => (at < firstPollsMax ? never : { kind: 'failed', code: 'refused' })),
      ),
      intervalMs: 60_000,
      timeoutMs: 10_000,
      random: () => 0.5,
      onResult: async (_result, askedMs) => void sentAt.push(askedMs),
      clock,
    }),
  )
  try {
    for (const watch of watches) void watch.pollNow()
    await clock.pass(placeMsMax)
    expect(sentAt).toEqual([placeMsMax])
  } finally {
    for (const watch of watches) watch.stop()
  }
})
