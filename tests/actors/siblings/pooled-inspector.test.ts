import { expect, test } from 'bun:test'
import { createPooledInspector } from '../../../src/actors/siblings/pooled-inspector.ts'
import { alone, type Siblings } from '../../../src/actors/siblings/siblings.ts'
import { createInspector } from '../../../src/actors/telemetry/inspect.ts'
import { sleep } from '../../../src/clock.ts'
import { createLog } from '../../../src/log.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

const never = new AbortController().signal

test('§33: the other processes are asked while somebody looks, twice a second, one question at a time', async () => {
  const clock = new VirtualClock()
  const asked: number[] = []
  let answerMs = 100
  const siblings: Siblings = {
    ...alone,
    index: 0,
    ask: async () => {
      asked.push(clock.now())
      await sleep(answerMs, never, clock)
      return []
    },
  }
  const pooled = createPooledInspector(createInspector(createLog('silent', () => {})), siblings, clock)
  expect(clock.waits).toEqual([])
  const ends = [pooled.subscribe(() => {}), pooled.subscribe(() => {})]
  await clock.pass(1_100)
  expect(asked).toEqual([0, 500, 1_000])
  answerMs = 2_000
  await clock.pass(3_000)
  expect(asked).toEqual([0, 500, 1_000, 1_500, 3_500])
  for (const end of ends) end()
  await clock.pass(60_000)
  expect(asked).toHaveLength(5)
})
