import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { eventBytesMax, eventStreamHeaders, SseSplitter } from '../../../src/protocol/chat/sse.ts'

type Seen = readonly [kind: 'data' | 'error', payload: string]

function collector(): { readonly seen: Seen[]; readonly splitter: SseSplitter } {
  const seen: Seen[] = []
  const splitter = new SseSplitter({
    data: (payload) => seen.push(['data', payload]),
    errorLine: (payload) => seen.push(['error', payload]),
  })
  return { seen, splitter }
}

/** What the splitter tells of `text` when its bytes come in the given pieces. */
function split(pieces: readonly Uint8Array[]): Seen[] {
  const { seen, splitter } = collector()
  for (const piece of pieces) expect(splitter.push(piece)).toBe(true)
  splitter.end()
  return seen
}

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text))

const streams: readonly (readonly [name: string, text: string, seen: readonly Seen[]])[] = [
  ['one event', 'data: {"a":1}\n\n', [['data', '{"a":1}']]],
  ['no space after the colon', 'data:{"a":1}\n\n', [['data', '{"a":1}']]],
  ['only one space is taken away', 'data:  x \n\n', [['data', ' x ']]],
  [
    'CRLF and LF mixed',
    'data: 1\r\n\r\ndata: 2\n\ndata: 3\r\n\n',
    [
      ['data', '1'],
      ['data', '2'],
      ['data', '3'],
    ],
  ],
  ['several data lines of one event', 'data: {"a":\ndata: 1}\n\n', [['data', '{"a":\n1}']]],
  [
    'comments between, before and within events',
    ': hello\n\ndata: 1\n: inside\n\n:\n\ndata: 2\n\n: bye\n\n',
    [
      ['data', '1'],
      ['data', '2'],
    ],
  ],
  ['event, id and retry are passed over', 'event: message\nid: 7\nretry: 10\ndata: x\n\n', [['data', 'x']]],
  ['an event without data is none', 'event: ping\n\ndata: x\n\n', [['data', 'x']]],
  [
    'an empty data line is an event',
    'data:\n\ndata: x\n\n',
    [
      ['data', ''],
      ['data', 'x'],
    ],
  ],
  ['blank lines alone', '\n\n\r\n\n', []],
  [
    'the last event lacks its blank line',
    'data: 1\n\ndata: [DONE]\n',
    [
      ['data', '1'],
      ['data', '[DONE]'],
    ],
  ],
  [
    'the last event lacks even its line end',
    'data: 1\n\ndata: [DONE]',
    [
      ['data', '1'],
      ['data', '[DONE]'],
    ],
  ],
  [
    'an error line',
    'data: 1\n\nerror: {"message":"x"}\n\n',
    [
      ['data', '1'],
      ['error', '{"message":"x"}'],
    ],
  ],
  ['UTF-8 of two, three and four bytes', 'data: äö 漢字 🙂\n\n', [['data', 'äö 漢字 🙂']]],
  ['a line separator of Unicode is no line end', 'data: a\u2028b\u0085c\n\n', [['data', 'a\u2028b\u0085c']]],
  ['a field that only begins like data', 'database: x\n\ndata: y\n\n', [['data', 'y']]],
]

describe('§6: a stream is split into its events', () => {
  test.each(streams.map((row) => [...row] as const))('%s', (_name, text, seen) => {
    expect(split([bytesOf(text)])).toEqual([...seen])
  })

  test.each(streams.map((row) => [...row] as const))('%s, cut at every byte', (_name, text, seen) => {
    const bytes = bytesOf(text)
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(split([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual([...seen])
    }
    expect(split(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual([...seen])
  })

  test('any cuts of all of them together give the same events', () => {
    const whole = bytesOf(streams.map(([, text]) => (text.endsWith('\n\n') ? text : `${text}\n\n`)).join(''))
    const expected = split([whole])
    expect(expected.length).toBeGreaterThan(15)
    fc.assert(
      fc.property(fc.array(fc.nat(whole.length), { maxLength: 12 }), (at) => {
        const cuts = [0, ...at.sort((a, b) => a - b), whole.length]
        const pieces = cuts.slice(1).map((cut, i) => whole.subarray(cuts[i], cut))
        expect(split(pieces)).toEqual(expected)
      }),
    )
  })

  test('the bytes of a piece may be used again by their owner', () => {
    const { seen, splitter } = collector()
    const buffer = bytesOf('data: first')
    splitter.push(buffer)
    buffer.fill(0x58)
    splitter.push(bytesOf(' half\n\n'))
    expect(seen).toEqual([['data', 'first half']])
  })
})

describe('§6: an event that is too large ends the stream', () => {
  const piece = new Uint8Array(1024 * 1024).fill(0x61)

  test('one line without an end', () => {
    const { splitter } = collector()
    splitter.push(bytesOf('data: '))
    const taken = Array.from({ length: 9 }, () => splitter.push(piece))
    expect(taken.indexOf(false)).toBe(eventBytesMax / piece.length - 1)
  })

  test('many lines without a blank one', () => {
    const { seen, splitter } = collector()
    const line = Buffer.concat([Buffer.from('data: '), piece, Buffer.from('\n')])
    const taken = Array.from({ length: 9 }, () => splitter.push(line))
    expect(taken.indexOf(false)).toBe(eventBytesMax / piece.length - 1)
    expect(seen).toEqual([])
  })

  test('an event just below the limit passes', () => {
    const payload = 'x'.repeat(eventBytesMax - 100)
    expect(split([bytesOf(`data: ${payload}\n\n`)])).toEqual([['data', payload]])
  })
})

test('§6: the headers of our own event streams', () => {
  expect(eventStreamHeaders).toEqual({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  })
})

test.each(streams)('%s, each byte where it stands between other lines', (_, text, seen) => {
  const around = 'data: foreign\n\n'
  const { seen: found, splitter } = collector()
  for (const byte of bytesOf(text)) {
    const input = Buffer.from(`${around}?${around}`)
    input[around.length] = byte
    expect(splitter.push(input, around.length, around.length + 1)).toBe(true)
    expect(splitter.push(input, around.length, around.length)).toBe(true)
  }
  splitter.end()
  expect(found).toEqual([...seen])
})
