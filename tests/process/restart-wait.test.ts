import { expect, test } from 'bun:test'
import { restartWaitMs } from '../../src/processes/supervisor.ts'

test('§33: a process that ends is started again after 250 ms, after twice as long each time, at most 30 s', () => {
  const waits = Array.from({ length: 10 }, (_, failures) => restartWaitMs(failures))
  expect(waits).toEqual([250, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
})
