import { expect, test } from 'bun:test'
import { newReading, type Work, workEnded, workPlaced } from '../../src/machines/placement/reading.ts'

const work = (atMs: number, ownMs: number): Work => ({
  atMs,
  ownMs,
  lagMs: 0,
  unreadUnits: 4_000,
  matchedBlocks: 0,
  atOnce: true,
  concurrency: 1,
  prompt: { units: 4_000, blocks: [], first: 1 },
  readMs: null,
})

test('§29: where no call is open nothing is left to read, though a whole answer tells no first token', () => {
  const reading = newReading('mp_a')
  const [first, second] = [work(1_000, 500), work(1_000, 500)]
  workPlaced(reading, first, false)
  workPlaced(reading, second, false)
  expect(reading.readUntilMs).toBe(2_000)
  workEnded(reading, first, false, 1_100)
  // Of the other one everything may still be unread.
  expect(reading.readUntilMs).toBe(1_600)
  workEnded(reading, second, false, 1_200)
  expect(reading.readUntilMs).toBe(1_200)
})
