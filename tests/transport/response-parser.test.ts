import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { HeadReader, MalformedResponse } from '../../src/transport/http1/response-head.ts'
import {
  type AfterAnswer,
  headBytesMax,
  interimsMax,
  ResponseParser,
  trailerBytesMax,
} from '../../src/transport/http1/response-parser.ts'

interface Parsed {
  status: number
  body: string
  ends: AfterAnswer[]
}

function parse(parts: readonly Buffer[]): Parsed {
  const parsed: Parsed = { status: 0, body: '', ends: [] }
  const parser = new ResponseParser({
    head: (status) => {
      parsed.status = status
    },
    part: (input, from, to) => {
      parsed.body += input.toString('latin1', from, to)
    },
    end: (next) => void parsed.ends.push(next),
  })
  for (const part of parts) parser.push(part)
  return parsed
}

const chunked = (pieces: readonly string[]) =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Long: ${'y'.repeat(50)}\r\n\r\n${pieces
    .map((piece) => `${piece.length.toString(16)};ext=1\r\n${piece}\r\n`)
    .join('')}0\r\nTrailer: t\r\n\r\n`

function cut(text: string, at: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text, 'latin1')
  const places = [...new Set(at.map((place) => place % bytes.length))].sort((a, b) => a - b)
  return [...places, bytes.length]
    .map((end, i) => bytes.subarray(places[i - 1] ?? 0, end))
    .filter((part) => part.length > 0)
}

describe('RFC 9112', () => {
  test('however the bytes are cut, the response is the same', () => {
    const piece = fc.string({ minLength: 1, maxLength: 40, unit: 'binary-ascii' })
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 30 }), (pieces, places) => {
        const text = chunked(pieces)
        expect(parse(cut(text, places))).toEqual({ status: 200, body: pieces.join(''), ends: ['reusable'] })
        const sized = `HTTP/1.1 201 Created\r\ncontent-length: ${pieces.join('').length}\r\n\r\n${pieces.join('')}`
        expect(parse(cut(sized, places))).toEqual({ status: 201, body: pieces.join(''), ends: ['reusable'] })
      }),
    )
  })

  test('a chunk that comes by itself is read as one that comes byte by byte, whatever its framing is', () => {
    const body = fc.string({ maxLength: 40, unit: 'binary-ascii' })
    const size = fc.oneof(
      { weight: 6, arbitrary: fc.constant(null) },
      fc.constantFrom('', '0', '00', 'a', 'A', 'g', ' 5', '5 ', '5;x', '@', '0000000000005', '+5', '-1', '5\r'),
    )
    const lineEnd = fc.oneof({ weight: 9, arbitrary: fc.constant('\r\n') }, fc.constantFrom('\n', '\r', '', '\r\r\n'))
    const chunk = fc.tuple(size, lineEnd, body, lineEnd).map(([told, first, text, last]) => {
      const length = text.length.toString(16)
      return `${told ?? length}${first}${text}${last}`
    })
    /** Up to the end of the answer: what follows it is another matter. */
    const outcome = (parts: readonly Buffer[]) => {
      const parsed = { body: '', ended: false }
      const parser = new ResponseParser({
        head: () => {},
        part: (input, from, to) => {
          parsed.body += input.toString('latin1', from, to)
        },
        end: () => {
          parsed.ended = true
        },
      })
      try {
        for (const part of parts) if (!parsed.ended) parser.push(part)
        return parsed
      } catch (error) {
        if (error instanceof MalformedResponse) return 'malformed'
        throw error
      }
    }
    fc.assert(
      fc.property(fc.array(chunk, { minLength: 1, maxLength: 5 }), (chunks) => {
        const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
        const parts = [head, ...chunks].map((part) => Buffer.from(part, 'latin1')).filter((part) => part.length > 0)
        const bytes = [...Buffer.concat(parts)].map((byte) => Buffer.of(byte))
        expect(outcome(parts)).toEqual(outcome(bytes))
      }),
      { numRuns: 1_000 },
    )
  })

  const one = 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na'

  test('a head like the last one but for its length is read as by a reader that has seen none', () => {
    const length = fc.oneof(
      fc.nat({ max: 1_000_000 }).map(String),
      fc.constantFrom('0', '007', '', '1e3', '+5', '5, 5', '5 5', '9'.repeat(15), '9'.repeat(16)),
      fc.string({ maxLength: 6, unit: 'binary-ascii' }),
    )
    const name = fc.constantFrom('Content-Length', 'content-length', 'X-Content-Length')
    const other = fc.constantFrom('Date: today', 'Connection: close', 'Content-Length: 3', 'Transfer-Encoding: chunked')
    const head = fc
      .record({ name, length, others: fc.array(other, { maxLength: 2 }), blank: fc.constantFrom('', ' ', '\t') })
      .map(
        ({ name: called, length: said, others, blank }) =>
          `HTTP/1.1 200 OK\r\n${called}:${blank}${said}\r\n${others.join('\r\n')}`,
      )
    const readBy = (reader: HeadReader, text: string) => {
      try {
        const { headers, ...framing } = reader.read(Buffer.from(`..${text}`, 'latin1'), 2, text.length + 2)
        return { ...framing, length: headers.get('content-length'), date: headers.get('date') }
      } catch (error) {
        return error instanceof MalformedResponse ? 'malformed' : error
      }
    }
    fc.assert(
      fc.property(fc.nat({ max: 99_999 }), length, fc.array(head, { maxLength: 4 }), (size, said, heads) => {
        const reader = new HeadReader()
        const like = (value: string | number) => `HTTP/1.1 200 OK\r\nDate: now\r\ncontent-length: ${value}`
        for (const text of [like(size), ...heads, like(said), like(size + 1)]) {
          expect(readBy(reader, text)).toEqual(readBy(new HeadReader(), text))
        }
      }),
    )
  })

  test('two responses on one connection, each to a request of its own', () => {
    const two = { status: 200, body: 'aa', ends: ['reusable', 'reusable'] as AfterAnswer[] }
    expect(parse([Buffer.from(one), Buffer.from(one)])).toEqual(two)
  })

  test.each([
    ['another response', one],
    ['one byte', '\r'],
    ['a line end', '\r\n'],
    ['an interim response', 'HTTP/1.1 100 Continue\r\n\r\n'],
  ])('§27 one answer per request: %s behind the answer is never read, and is told', (_name, behind) => {
    const once = { status: 200, body: 'a', ends: ['excess'] as AfterAnswer[] }
    expect(parse([Buffer.from(one + behind)])).toEqual(once)
    const closing = one.replace('content-length', 'connection: close\r\ncontent-length')
    expect(parse([Buffer.from(closing + behind)])).toEqual(once)
    const framed = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n'
    expect(parse([Buffer.from(framed + behind)])).toEqual(once)
    expect(parse([Buffer.from(`HTTP/1.1 204 No Content\r\n\r\n${behind}`)]).ends).toEqual(['excess'])
  })

  test('§27: interim responses and trailers are passed over, so many and no more', () => {
    const interim = 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'
    const single = { status: 200, body: 'a', ends: ['reusable'] as AfterAnswer[] }
    expect(parse([Buffer.from(interim.repeat(interimsMax) + one)])).toEqual(single)
    expect(() => parse([Buffer.from(interim.repeat(interimsMax + 1))])).toThrow(MalformedResponse)
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n'
    const trailer = `x: ${'y'.repeat(95)}\r\n`
    const fitting = Math.floor(trailerBytesMax / trailer.length)
    expect(parse([Buffer.from(`${head}${trailer.repeat(fitting - 1)}\r\n`)])).toEqual(single)
    expect(() => parse([Buffer.from(head + trailer.repeat(fitting + 1))])).toThrow(MalformedResponse)
  })

  test('a body that was handed on is not overwritten by what comes later', () => {
    const bodies: Buffer[] = []
    const parser = new ResponseParser({
      head: () => {},
      part: (input, from, to) => void bodies.push(input.subarray(from, to)),
      end: () => {},
    })
    const bytes = Buffer.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n')
    for (let at = 0; at < bytes.length; at += 5) parser.push(Buffer.from(bytes.subarray(at, at + 5)))
    expect(Buffer.concat(bodies).toString()).toBe('abcdef')
  })

  test.each([
    ['HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n', 'closing'],
    ['HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n', 'closing'],
    ['HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n', 'reusable'],
    ['HTTP/1.1 204 No Content\r\n\r\n', 'reusable'],
    ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n', 'closing'],
  ])('may the connection be used again: %j', (text, next) => {
    expect<unknown>(parse([Buffer.from(text)]).ends).toEqual([next])
  })

  const malformed = [
    'nonsense\r\n\r\n',
    'HTTP/2 200 OK\r\n\r\n',
    'HTTP/1.1 99 No\r\n\r\n',
    'HTTP/1.1 101 Switching\r\n\r\n',
    'HTTP/1.1 200 OK\r\nbad header: 1\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n',
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1'.repeat(300)}`,
    `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(headBytesMax)}`,
  ]
  test.each(malformed.map((text) => [text.slice(0, 80), text]))('refused: %p', (_, text) => {
    expect(() => parse([Buffer.from(text)])).toThrow(MalformedResponse)
  })
})
