import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Confidences } from '../../../src/confidences.ts'
import { HeldWords } from '../../../src/protocol/media/held-words.ts'

const secret = 'sk-node/7QxR-92aa'
const confided = new Confidences([secret])
const strike = (text: string) => confided.strike(text)
const events = 'text/event-stream; charset=utf-8'

function passed(type: string, pieces: readonly Buffer[]): string {
  const words = new HeldWords(type, strike)
  return Buffer.concat([...pieces.map((piece) => words.push(piece)), words.end()]).toString('latin1')
}

const parts = fc.constantFrom(
  ...[
    'data: {"delta":"a"}\n\n',
    'event: x\r\ndata: 1\r\n\r\n',
    ': c\n\n',
    '\n',
    '\r\n',
    'data: ',
    'id: 1\n',
    '{"error":null}',
    'é',
    '\r\r',
  ],
)
const cut = (text: string, places: readonly number[]) => {
  const bytes = Buffer.from(text, 'latin1')
  const ends = [...places.map((at) => at % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end))
}

test('§28: whatever pieces an answer comes in, all of it passes in order', () => {
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 12 }), fc.array(fc.nat(200), { maxLength: 6 }), (all, places) => {
      const text = all.join('')
      for (const type of [events, 'application/json', 'audio/mpeg']) expect(passed(type, cut(text, places))).toBe(text)
    }),
    { numRuns: 500 },
  )
})

test('§5: wherever an event is cut, the key in its error is struck, and in what stands beside its data', () => {
  for (const text of [
    `data: {"error":{"message":"${secret}"}}\n\n`,
    `: ${secret}\n\n`,
    `event: error\ndata: ${secret}\n\n`,
  ]) {
    for (let at = 0; at <= text.length; at++) expect(passed(events, cut(text, [at]))).not.toContain('7QxR')
  }
})

test('§5: what is said as JSON and is an event of an error has no key either', () => {
  const text = `data: {"error":{"message":"${secret}"}}`
  expect(passed('application/json', cut(text, [30]))).not.toContain('7QxR')
})

test('§28: an event passes when it has ended, sound as it comes, and what is larger than a refusal', () => {
  const stream = new HeldWords(events, strike)
  expect(stream.push(Buffer.from('data: 1\n')).length).toBe(0)
  expect(stream.push(Buffer.from('\ndata: 2')).toString()).toBe('data: 1\n\n')
  expect(stream.push(Buffer.alloc(64 * 1024, 'x')).length).toBe(64 * 1024 + 7)
  const sound = Buffer.from('{"error"')
  expect(new HeldWords('audio/mpeg', strike).push(sound)).toBe(sound)
  const body = new HeldWords('application/json', strike)
  expect(body.push(Buffer.alloc(64 * 1024, ' ')).length).toBe(0)
  expect(body.push(Buffer.from('{')).length).toBe(64 * 1024 + 1)
})

test('§27: an event of single bytes costs no more than one that comes at once', () => {
  const words = new HeldWords(events, strike)
  const byte = Buffer.from('\n')
  const other = Buffer.from('a')
  // Joined anew for each of them, this would copy gigabytes.
  for (let at = 0; at < 60_000; at++) words.push(at % 2 === 0 ? other : byte)
  expect(words.end().length).toBe(60_000)
})
