import { expect, test } from 'bun:test'
import { GroupWriter } from '../../src/actors/durable/group-writer.ts'
import { createLog } from '../../src/log.ts'
import { lasts } from '../support/run/lasts.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

const gatherMs = 40
const rows = 150

test('§14: rows that come while a group is written gather as long as any other, and do not follow it at once', async () => {
  let groups = 0
  const insert = async (batch: readonly number[]) => {
    groups++
    await lasts(1)
    return batch
  }
  const log = createLog('silent', () => {})
  const writer = new GroupWriter<number>({ name: 'rows', log, insert, gatherMs, queueMax: rows })
  const tookMs = stopwatch()
  for (let row = 0; row < rows; row++) {
    writer.write(row)
    await lasts(1)
  }
  // A group can begin no sooner than its wait after the one before; timers of a busy machine only come later.
  const most = Math.ceil(tookMs() / (gatherMs - 1)) + 1
  await writer.flush()
  expect(groups).toBeLessThanOrEqual(most)
  expect(writer.written()).toBe(rows)
})
