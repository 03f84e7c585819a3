import { seededKey } from '../../../src/actors/accounts/seeded-key.ts'
import { createSequencer } from '../../../src/actors/log/sequencer.ts'
import type { Database } from '../../../src/db/client.ts'
import { createLog, type Log } from '../../../src/log.ts'
import { VirtualClock } from '../run/virtual-clock.ts'
import { waitUntil } from '../run/wait-until.ts'
import { testMacs } from './receipt-macs.ts'

const intervalMs = 1_000

/** A log that takes its turns when it is told to, by a clock that goes on with them. */
export function turnedLog(db: Database, log: Log = createLog('silent', () => {})) {
  const clock = new VirtualClock()
  let nowMs = Date.now()
  const keys = [seededKey('77'.repeat(32))] as const
  const sequencer = createSequencer({
    ...{ db, log, keys, macs: testMacs, intervalMs, memory: null, clock },
    now: () => nowMs,
  })
  const resting = () => waitUntil('the next turn is set', () => clock.waits.length === 1)
  return {
    sequencer,
    start: async () => {
      await sequencer.start()
      await resting()
    },
    /** Resolves after it. `passedMs`: since the last one, by the clock on the wall. */
    turn: async (passedMs = intervalMs) => {
      nowMs += passedMs
      await clock.pass(intervalMs)
      await resting()
    },
  }
}
