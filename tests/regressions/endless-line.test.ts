import { expect, test } from 'bun:test'
import { SseSplitter } from '../../src/protocol/chat/sse.ts'

/** CPU time of a line that comes in so many pieces of one byte, µs: the least of three, since others work here, too. */
function cpuUs(pieces: number): number {
  const piece = Buffer.from('x')
  const once = () => {
    const splitter = new SseSplitter({ data: () => {}, errorLine: () => {} })
    const before = process.cpuUsage()
    for (let at = 0; at < pieces; at++) splitter.push(piece)
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  return Math.min(once(), once(), once())
}

/**
 * Symptom: a node that sent a line of 8 MB byte by byte cost 2.6 s of CPU for each 200 kB of it.
 * Cause: what was kept of an unfinished line was copied at every read.
 * Fix: it is kept in a buffer that doubles.
 */
test('a line in ten times as many pieces costs about ten times as much, not a hundred times', () => {
  cpuUs(20_000)
  expect(cpuUs(200_000)).toBeLessThan(40 * cpuUs(20_000))
})
