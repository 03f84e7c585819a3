import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import {
  dataFrame,
  decodeFrame,
  endFrame,
  goAwayFrame,
  headFrame,
  openFrame,
  payloadBytesMax,
  resetFrame,
  statusFrame,
  windowFrameOf,
} from '../../../src/protocol/tunnel/tunnel-frames.ts'

const protocol = readFileSync(join(import.meta.dir, '../../../docs/protocol.md'), 'utf8')
const ascii = (text: string) => Buffer.from(text).toString('hex')
const decoded = (hex: string) => decodeFrame(Buffer.from(hex, 'hex'))
const head = (type: number, id: number) => {
  const bytes = Buffer.alloc(5)
  bytes[0] = type
  bytes.writeUInt32BE(id, 1)
  return bytes
}

/** The examples of docs/protocol.md. */
const examples: readonly (readonly [string, Buffer | null, string, object])[] = [
  [
    'OPEN',
    openFrame(1, { method: 'GET', path: '/v1/models', headers: {} }),
    `0100000001${ascii('{"method":"GET","path":"/v1/models","headers":{}}')}`,
    { kind: 'open', id: 1, head: { method: 'GET', path: '/v1/models', headers: {} } },
  ],
  ['DATA', dataFrame(1, Buffer.from('hi')), '02000000016869', { kind: 'data', id: 1, bytes: Buffer.from('hi') }],
  ['END', endFrame(258), '0300000102', { kind: 'end', id: 258 }],
  [
    'HEAD',
    headFrame(1, { status: 200, headers: { 'content-type': 'text/event-stream' } }),
    `0400000001${ascii('{"status":200,"headers":{"content-type":"text/event-stream"}}')}`,
    { kind: 'head', id: 1, head: { status: 200, headers: { 'content-type': 'text/event-stream' } } },
  ],
  [
    'RESET',
    resetFrame(1, 'cancelled'),
    `0500000001${ascii('{"code":"cancelled"}')}`,
    { kind: 'reset', id: 1, code: 'cancelled' },
  ],
  ['WINDOW', windowFrameOf(1, 32_768), '060000000100008000', { kind: 'window', id: 1, bytes: 32_768 }],
  ['STATUS', statusFrame('{"a":1}'), `0700000000${ascii('{"a":1}')}`, { kind: 'status', id: 0, text: '{"a":1}' }],
  ['GOAWAY', goAwayFrame(), '0800000000', { kind: 'goAway', id: 0 }],
]

describe('§22: the bytes of each frame', () => {
  for (const [name, made, hex, frame] of examples) {
    test(name, () => {
      expect(made?.toString('hex')).toBe(hex)
      expect(decoded(hex)).toEqual(frame as ReturnType<typeof decodeFrame>)
    })
  }

  test('docs/protocol.md shows just these', () => {
    const documented = /<!-- frames:begin -->([\s\S]*?)<!-- frames:end -->/.exec(protocol)?.[1] ?? ''
    expect([...documented.matchAll(/`([0-9a-f]{10,})`/g)].map(([, hex]) => hex)).toEqual(
      examples.map(([, , hex]) => hex),
    )
  })

  test('the largest payload, and one byte more', () => {
    const largest = dataFrame(7, Buffer.alloc(payloadBytesMax, 1))
    expect(decodeFrame(largest)).toMatchObject({ kind: 'data', id: 7 })
    expect(decodeFrame(Buffer.concat([largest, Buffer.alloc(1)]))).toEqual({ kind: 'broken', fault: 'bad_length' })
    expect(statusFrame(JSON.stringify('x'.repeat(payloadBytesMax)))).toBeNull()
    expect(openFrame(1, { method: 'GET', path: `/${'x'.repeat(payloadBytesMax)}`, headers: {} })).toBeNull()
  })
})

describe('§22: what is no frame', () => {
  const open = (value: unknown) => Buffer.concat([head(1, 1), Buffer.from(JSON.stringify(value))])
  const answer = (value: unknown) => Buffer.concat([head(4, 1), Buffer.from(JSON.stringify(value))])
  const request = { method: 'GET', path: '/', headers: {} }
  const cases: readonly (readonly [string, Buffer, string])[] = [
    ['nothing', Buffer.alloc(0), 'bad_length'],
    ['four bytes', Buffer.alloc(4, 2), 'bad_length'],
    ['DATA without data', head(2, 1), 'bad_length'],
    ['END with a payload', Buffer.concat([head(3, 1), Buffer.alloc(1)]), 'bad_length'],
    ['WINDOW of three bytes', Buffer.concat([head(6, 1), Buffer.alloc(3, 1)]), 'bad_length'],
    ['WINDOW of five bytes', Buffer.concat([head(6, 1), Buffer.alloc(5, 1)]), 'bad_length'],
    ['GOAWAY with a payload', Buffer.concat([head(8, 0), Buffer.alloc(1)]), 'bad_length'],
    ['type 0', head(0, 1), 'unknown_type'],
    ['type 9', head(9, 1), 'unknown_type'],
    ['type 255', head(255, 1), 'unknown_type'],
    ['OPEN on stream 0', Buffer.concat([head(1, 0), open(request).subarray(5)]), 'bad_stream_id'],
    ['DATA on stream 0', Buffer.concat([head(2, 0), Buffer.alloc(1)]), 'bad_stream_id'],
    ['STATUS on a stream', Buffer.concat([head(7, 1), Buffer.from('{}')]), 'bad_stream_id'],
    ['GOAWAY on a stream', head(8, 1), 'bad_stream_id'],
    ['WINDOW of nothing', Buffer.concat([head(6, 1), Buffer.alloc(4)]), 'bad_payload'],
    ['WINDOW of 2 GiB', Buffer.concat([head(6, 1), Buffer.alloc(4, 255)]), 'bad_payload'],
    ['OPEN that is no JSON', Buffer.concat([head(1, 1), Buffer.from('{')]), 'bad_payload'],
    ['OPEN that is a list', open([]), 'bad_payload'],
    ['OPEN with another method', open({ ...request, method: 'TRACE' }), 'bad_payload'],
    ['OPEN with a whole URL', open({ ...request, path: 'http://elsewhere/' }), 'bad_payload'],
    ['OPEN with a space in its path', open({ ...request, path: '/a b' }), 'bad_payload'],
    ['OPEN with a line break in a header', open({ ...request, headers: { a: 'x\r\ny: z' } }), 'bad_payload'],
    ['OPEN with an upper-case header', open({ ...request, headers: { Host: 'x' } }), 'bad_payload'],
    ['OPEN with a header that is no text', open({ ...request, headers: { a: 1 } }), 'bad_payload'],
    ['OPEN without headers', open({ method: 'GET', path: '/' }), 'bad_payload'],
    ['HEAD with an interim status', answer({ status: 100, headers: {} }), 'bad_payload'],
    ['HEAD with a broken status', answer({ status: 200.5, headers: {} }), 'bad_payload'],
    ['HEAD with a status that is a text', answer({ status: '200', headers: {} }), 'bad_payload'],
    ['RESET without a code', Buffer.concat([head(5, 1), Buffer.from('{}')]), 'bad_payload'],
    ['STATUS that is a number', Buffer.concat([head(7, 0), Buffer.from('1')]), 'bad_payload'],
  ]
  for (const [name, bytes, fault] of cases) {
    test(name, () => expect(decodeFrame(bytes)).toEqual({ kind: 'broken', fault: fault as 'bad_length' }))
  }
})

describe('§22: any bytes are a frame or a named fault, never a crash', () => {
  const faults = ['bad_length', 'unknown_type', 'bad_stream_id', 'bad_payload']
  const settles = (bytes: Uint8Array) => {
    const frame = decodeFrame(Buffer.from(bytes))
    if (frame.kind === 'broken') expect(faults).toContain(frame.fault)
    else expect(frame.id).toBeLessThanOrEqual(0xff_ff_ff_ff)
  }

  test('random bytes', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 64 }), settles), { numRuns: 5_000 })
  })

  test('a type, any id and any JSON', () => {
    const framed = fc.tuple(fc.integer({ min: 0, max: 10 }), fc.integer({ min: 0, max: 3 }), fc.json())
    fc.assert(
      fc.property(framed, ([type, id, json]) => settles(Buffer.concat([head(type, id), Buffer.from(json)]))),
      { numRuns: 3_000 },
    )
  })

  test('every frame cut short and with one byte changed', () => {
    for (const [, made] of examples) {
      const bytes = made ?? Buffer.alloc(0)
      for (let length = 0; length < bytes.length; length++) settles(bytes.subarray(0, length))
      for (let at = 0; at < bytes.length; at++) {
        for (const value of [0, 1, 34, 92, 128, 255]) {
          const changed = Buffer.from(bytes)
          changed[at] = value
          settles(changed)
        }
      }
    }
  })

  test('what is written is read', () => {
    const value = fc.string().filter((text) => !/[\r\n\0]/.test(text))
    const fields = fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/), value, {
      maxKeys: 4,
      noNullPrototype: true,
    })
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 0xff_ff_ff_ff }),
        fields,
        fc.uint8Array({ minLength: 1 }),
        (id, headers, data) => {
          const opened = { method: 'POST', path: '/v1/x?y=1', headers }
          expect(decodeFrame(openFrame(id, opened) ?? Buffer.alloc(0))).toEqual({ kind: 'open', id, head: opened })
          expect(decodeFrame(dataFrame(id, data))).toEqual({ kind: 'data', id, bytes: Buffer.from(data) })
        },
      ),
    )
  })
})
