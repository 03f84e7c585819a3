import { expect, test } from 'bun:test'
import { bufferedStream, type StreamEnd } from '../../../src/actors/mixture/buffered-stream.ts'

const patientMs = 60_000
function started(events: readonly string[], stalledMs = patientMs) {
  const ends: StreamEnd[] = []
  const ended = Promise.withResolvers<StreamEnd>()
  const buffered = bufferedStream(events.values(), stalledMs, (end) => {
    ends.push(end)
    ended.resolve(end)
  })
  return { ...buffered, ends, ended: ended.promise, reader: buffered.stream.getReader() }
}

test('sends in order, one ahead of the client, and says when all is sent', async () => {
  let made = 0
  const events = (function* () {
    for (; made < 5; made++) yield `e${made}`
  })()
  const ended = Promise.withResolvers<StreamEnd>()
  const { stream } = bufferedStream(events, patientMs, ended.resolve)
  const reader = stream.getReader()
  expect((await reader.read()).value).toBe('e0')
  expect(made).toBeLessThan(4)
  const rest: unknown[] = []
  for (let next = await reader.read(); !next.done; next = await reader.read()) rest.push(next.value)
  expect(rest).toEqual(['e1', 'e2', 'e3', 'e4'])
  expect(await ended.promise).toBe('sent')
})

test('a client that leaves', async () => {
  const { reader, ended, ends } = started(['a', 'b', 'c'])
  await reader.read()
  await reader.cancel()
  expect(await ended).toBe('client_gone')
  expect(ends).toEqual(['client_gone'])
})

test('a client that reads nothing is cut off, and cannot take what it got for a whole answer', async () => {
  const { reader, ended, ends } = started(['a', 'b', 'c'], 1)
  await reader.read()
  expect(await ended).toBe('slow_client')
  await expect(
    (async () => {
      for (;;) if ((await reader.read()).done) return
    })(),
  ).rejects.toThrow()
  expect(ends).toEqual(['slow_client'])
})

test('a gateway that stops sends the rest at once', async () => {
  const { reader, ended, flush } = started(['a', 'b', 'c'])
  flush()
  expect(await ended).toBe('sent')
  flush()
  const got: unknown[] = []
  for (let next = await reader.read(); !next.done; next = await reader.read()) got.push(next.value)
  expect(got).toEqual(['a', 'b', 'c'])
})
