import { expect, test } from 'bun:test'
import { OpenStreams } from '../../../src/protocol/tunnel/open-streams.ts'
import { type StreamCarrier, TunnelStream } from '../../../src/protocol/tunnel/tunnel-stream.ts'

const carrier: StreamCarrier = { role: 'node', send: () => {}, clear: true, queue: () => {}, over: () => {} }

test('decision 23: streams that stay open are found by their ids while thousands come and go', () => {
  const streams = new OpenStreams()
  const kept: TunnelStream[] = []
  for (let id = 1; id <= 5_000; id++) {
    const stream = new TunnelStream(id, carrier)
    streams.add(stream)
    if (id % 100 === 0) kept.push(stream)
    else streams.delete(stream)
  }
  expect(streams.size).toBe(kept.length)
  expect(streams.all()).toEqual(kept)
  for (const stream of kept) expect(streams.get(stream.id)).toBe(stream)
  expect(streams.get(4_999)).toBeUndefined()
})

test('decision 23: one that leaves from the middle of its list forgets its neighbours, and leaves once', () => {
  const streams = new OpenStreams()
  const [first, second, third] = [1, 257, 513].map((id) => new TunnelStream(id, carrier)) as [
    TunnelStream,
    TunnelStream,
    TunnelStream,
  ]
  for (const stream of [first, second, third]) streams.add(stream)
  streams.delete(second)
  streams.delete(second)
  expect([second.nextOpen, streams.size]).toEqual([null, 2])
  expect([1, 257, 513].map((id) => streams.get(id))).toEqual([first, undefined, third])
})
