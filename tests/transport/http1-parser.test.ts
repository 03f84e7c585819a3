import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { headBytesMax, MalformedResponse, ResponseParser } from '../../src/transport/http1-parser.ts'

interface Parsed {
  status: number
  body: string
  ends: boolean[]
}

function parse(parts: readonly Buffer[]): Parsed {
  const parsed: Parsed = { status: 0, body: '', ends: [] }
  const parser = new ResponseParser({
    head: (status) => {
      parsed.status = status
    },
    body: (bytes) => {
      parsed.body += Buffer.from(bytes).toString('latin1')
    },
    end: (reusable) => void parsed.ends.push(reusable),
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
        expect(parse(cut(text, places))).toEqual({ status: 200, body: pieces.join(''), ends: [true] })
        const sized = `HTTP/1.1 201 Created\r\ncontent-length: ${pieces.join('').length}\r\n\r\n${pieces.join('')}`
        expect(parse(cut(sized, places))).toEqual({ status: 201, body: pieces.join(''), ends: [true] })
      }),
    )
  })

  test('two responses on one connection', () => {
    const one = 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na'
    expect(parse([Buffer.from(one + one)])).toEqual({ status: 200, body: 'aa', ends: [true, true] })
  })

  test.each([
    ['HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n', false],
    ['HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n', false],
    ['HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n', true],
    ['HTTP/1.1 204 No Content\r\n\r\n', true],
    ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n', false],
  ])('may the connection be used again: %j', (text, reusable) => {
    expect(parse([Buffer.from(text)]).ends).toEqual([reusable])
  })

  test.each([
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
  ])('refused: %p', (text) => {
    expect(() => parse([Buffer.from(text)])).toThrow(MalformedResponse)
  })
})
