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
  resetFrame,
  statusFrame,
  streamIdMax,
  windowBytes,
  windowFrameOf,
} from '../../../src/protocol/tunnel/tunnel-frames.ts'
import {
  closeCodes,
  openStreamsMax,
  type TunnelEnd,
  TunnelSession,
} from '../../../src/protocol/tunnel/tunnel-session.ts'
import type { StreamSink, TunnelStream } from '../../../src/protocol/tunnel/tunnel-stream.ts'

const head = { method: 'POST', path: '/v1/x', headers: {} }
const answer = { status: 200, headers: {} }

/** Notes what a stream is told. */
class Notes implements StreamSink {
  readonly told: string[] = []
  head({ status }: { status: number }): void {
    this.told.push(`head ${status}`)
  }
  bytes(chunk: Buffer): void {
    this.told.push(`bytes ${chunk.length}`)
  }
  ended(): void {
    this.told.push('ended')
  }
  reset(code: string): void {
    this.told.push(`reset ${code}`)
  }
  writable(): void {
    this.told.push('writable')
  }
}

interface End {
  readonly session: TunnelSession
  readonly sent: Buffer[]
  readonly opened: { readonly stream: TunnelStream; readonly notes: Notes }[]
  readonly ends: TunnelEnd[]
  /** What the socket holds back. */
  buffered: number
}

/** One end of a tunnel whose other end is the test. */
function endOf(role: 'gateway' | 'node'): End {
  const sent: Buffer[] = []
  const opened: End['opened'] = []
  const ends: TunnelEnd[] = []
  const end: { session: TunnelSession; buffered: number } & Omit<End, 'session' | 'buffered'> = {
    session: undefined as never,
    buffered: 0,
    sent,
    opened,
    ends,
  }
  end.session = new TunnelSession({
    role,
    socket: {
      send: (frame) => sent.push(frame) > 0,
      bufferedBytes: () => end.buffered,
      awaitDrain: () => {},
      together: (work: () => void) => work(),
      close: () => {},
    },
    ...(role === 'node'
      ? {
          opened: (stream) => {
            const notes = new Notes()
            opened.push({ stream, notes })
            return notes
          },
        }
      : { status: () => {} }),
    goAway: () => {},
    idle: () => {},
    closed: (why) => ends.push(why),
  })
  return end
}

const frame = (made: Buffer | null) => made ?? Buffer.alloc(0)
const kinds = (sent: readonly Buffer[]) =>
  sent.map((bytes) => {
    const seen = decodeFrame(bytes)
    return seen.kind === 'broken' ? seen.fault : `${seen.kind} ${seen.id}`
  })

function opened(end: End): { readonly stream: TunnelStream; readonly notes: Notes } {
  const notes = new Notes()
  const stream = end.session.open(head, () => notes)
  if (stream === null) throw new Error('not opened')
  return { stream, notes }
}

describe('§22: what closes the tunnel, with its code', () => {
  const atNode: readonly (readonly [string, readonly Buffer[], TunnelEnd])[] = [
    ['a never-opened id', [endFrame(1)], 'unknown_stream'],
    ['an id beyond the last opened', [frame(openFrame(4, head)), dataFrame(5, Buffer.alloc(1))], 'unknown_stream'],
    ['an id opened twice', [frame(openFrame(4, head)), frame(openFrame(4, head))], 'bad_stream_id'],
    ['an id that falls', [frame(openFrame(4, head)), frame(openFrame(3, head))], 'bad_stream_id'],
    ['an answer toward a node', [frame(openFrame(1, head)), frame(headFrame(1, answer))], 'unexpected_frame'],
    ['a status toward a node', [frame(statusFrame('{}'))], 'unexpected_frame'],
    [
      'a body after its end',
      [frame(openFrame(1, head)), endFrame(1), dataFrame(1, Buffer.alloc(1))],
      'unexpected_frame',
    ],
    ['a second end', [frame(openFrame(1, head)), endFrame(1), endFrame(1)], 'unexpected_frame'],
    ['more credit than a window', [frame(openFrame(1, head)), windowFrameOf(1, 1)], 'window_exceeded'],
    ['an unknown type', [Buffer.from('0900000001', 'hex')], 'unknown_type'],
    ['a bad length', [Buffer.from('02', 'hex')], 'bad_length'],
  ]
  for (const [name, frames, code] of atNode) {
    test(`${name}: ${code}`, () => {
      const node = endOf('node')
      for (const bytes of frames) node.session.receive(bytes)
      expect(node.ends).toEqual([code])
      // Nothing is heard any more.
      node.session.receive(frame(openFrame(99, head)))
      expect(node.opened.every(({ stream }) => stream.id !== 99)).toBe(true)
    })
  }

  test('a text message: unknown_type', () => {
    const node = endOf('node')
    node.session.receive('{"type":1}')
    expect(node.ends).toEqual(['unknown_type'])
  })

  test('only the gateway opens streams', () => {
    const gateway = endOf('gateway')
    gateway.session.receive(frame(openFrame(1, head)))
    expect(gateway.ends).toEqual(['unexpected_frame'])
  })

  for (const [name, bytes] of [
    ['a body', dataFrame(1, Buffer.alloc(1))],
    ['an end', endFrame(1)],
  ] as const) {
    test(`${name} before its head`, () => {
      const gateway = endOf('gateway')
      opened(gateway)
      gateway.session.receive(bytes)
      expect(gateway.ends).toEqual(['unexpected_frame'])
    })
  }

  test('a second head', () => {
    const gateway = endOf('gateway')
    opened(gateway)
    for (let i = 0; i < 2; i++) gateway.session.receive(frame(headFrame(1, answer)))
    expect(gateway.ends).toEqual(['unexpected_frame'])
  })

  test('every stream hears that the tunnel has closed, once', () => {
    const gateway = endOf('gateway')
    const [a, b] = [opened(gateway), opened(gateway)]
    gateway.session.lost()
    gateway.session.lost()
    expect([a.notes.told, b.notes.told]).toEqual([['reset tunnel_closed'], ['reset tunnel_closed']])
    expect(gateway.ends).toEqual(['lost'])
    expect(gateway.session.open(head, () => new Notes())).toBeNull()
  })
})

describe('§22: frames on a stream that is over on this side', () => {
  test('after RESET they are discarded and their credit returned', () => {
    const gateway = endOf('gateway')
    const { stream, notes } = opened(gateway)
    stream.reset('cancelled')
    gateway.sent.length = 0
    for (const bytes of [headFrame(1, answer), dataFrame(1, Buffer.alloc(100)), endFrame(1), resetFrame(1, 'failed')]) {
      gateway.session.receive(frame(bytes))
    }
    gateway.session.receive(windowFrameOf(1, 5))
    expect(gateway.sent.map((bytes) => decodeFrame(bytes))).toEqual([{ kind: 'window', id: 1, bytes: 100 }])
    expect([notes.told, gateway.ends, gateway.session.openStreams]).toEqual([[], [], 0])
  })

  test('a node that has answered before the request was whole', () => {
    const node = endOf('node')
    node.session.receive(frame(openFrame(1, head)))
    const [only] = node.opened
    only?.stream.head(answer)
    only?.stream.end()
    node.sent.length = 0
    node.session.receive(dataFrame(1, Buffer.alloc(7)))
    node.session.receive(endFrame(1))
    expect(kinds(node.sent)).toEqual(['window 1'])
    expect(node.ends).toEqual([])
  })
})

describe('§22: a window of 64 KiB each way', () => {
  test('a sender stops at 0 and goes on with what is granted', () => {
    const gateway = endOf('gateway')
    const { stream, notes } = opened(gateway)
    gateway.sent.length = 0
    const sent = () => gateway.sent.reduce((sum, bytes) => sum + bytes.length - 5, 0)
    expect(stream.write(Buffer.alloc(3 * windowBytes))).toBe(false)
    expect(sent()).toBe(windowBytes)
    gateway.session.receive(windowFrameOf(1, 1_000))
    expect(sent()).toBe(windowBytes + 1_000)
    gateway.session.receive(windowFrameOf(1, windowBytes))
    gateway.session.receive(windowFrameOf(1, windowBytes))
    expect(sent()).toBe(3 * windowBytes)
    expect(notes.told).toEqual(['writable'])
    stream.end()
    expect(kinds(gateway.sent).at(-1)).toBe('end 1')
  })

  test('a sender that goes beyond it closes the tunnel', () => {
    const node = endOf('node')
    node.session.receive(frame(openFrame(1, head)))
    node.opened[0]?.stream.pause()
    node.session.receive(dataFrame(1, Buffer.alloc(windowBytes)))
    expect(node.ends).toEqual([])
    node.session.receive(dataFrame(1, Buffer.alloc(1)))
    expect(node.ends).toEqual(['window_exceeded'])
  })

  test('a paused reader grants nothing; resumed, all that it has taken', () => {
    const node = endOf('node')
    node.session.receive(frame(openFrame(1, head)))
    const [only] = node.opened
    only?.stream.pause()
    node.session.receive(dataFrame(1, Buffer.alloc(windowBytes)))
    expect(node.sent).toEqual([])
    only?.stream.resume()
    expect(node.sent.map((bytes) => decodeFrame(bytes))).toEqual([{ kind: 'window', id: 1, bytes: windowBytes }])
  })

  test('whatever the sizes and pauses, every byte arrives once and in order', () => {
    const step = fc.oneof(
      fc.record({ write: fc.integer({ min: 1, max: 200_000 }) }),
      fc.constant({ pause: true }),
      fc.constant({ resume: true }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const [gateway, node] = [endOf('gateway'), endOf('node')]
        const { stream } = opened(gateway)
        const move = () => {
          while (gateway.sent.length + node.sent.length > 0) {
            for (const bytes of gateway.sent.splice(0)) node.session.receive(bytes)
            for (const bytes of node.sent.splice(0)) gateway.session.receive(bytes)
          }
        }
        move()
        const arrived = () =>
          (node.opened[0]?.notes.told ?? []).reduce((sum, note) => sum + Number(note.split(' ')[1] ?? 0), 0)
        let written = 0
        let free = true
        for (const at of steps) {
          if ('write' in at && free) {
            written += at.write
            free = stream.write(Buffer.alloc(at.write))
          } else if ('pause' in at) node.opened[0]?.stream.pause()
          else if ('resume' in at) node.opened[0]?.stream.resume()
          move()
          free = arrived() === written
        }
        node.opened[0]?.stream.resume()
        stream.end()
        move()
        expect(arrived()).toBe(written)
        expect(node.opened[0]?.notes.told.at(-1)).toBe('ended')
        expect([gateway.ends, node.ends]).toEqual([[], []])
      }),
      { numRuns: 200 },
    )
  })
})

describe('§22: turns', () => {
  test('streams take turns; one with little to say does not wait for one with much', () => {
    const gateway = endOf('gateway')
    const [long, short] = [opened(gateway), opened(gateway)]
    gateway.sent.length = 0
    gateway.buffered = 10_000_000
    long.stream.write(Buffer.alloc(windowBytes))
    short.stream.write(Buffer.alloc(windowBytes / 2))
    short.stream.end()
    // The socket is full: nothing goes out, everything waits for its turn.
    expect(gateway.sent).toEqual([])
    gateway.buffered = 0
    gateway.session.drained()
    expect(kinds(gateway.sent)).toEqual(['data 1', 'data 2', 'data 1', 'data 2', 'end 2', 'data 1', 'data 1'])
  })

  test('one without credit takes no turn from the others', () => {
    const gateway = endOf('gateway')
    const [stalled, other] = [opened(gateway), opened(gateway)]
    stalled.stream.write(Buffer.alloc(2 * windowBytes))
    gateway.sent.length = 0
    expect(other.stream.write(Buffer.alloc(100))).toBe(true)
    expect(kinds(gateway.sent)).toEqual(['data 2'])
  })

  test('no id is used twice: with the last one the gateway asks for another tunnel and opens no more', () => {
    const gateway = endOf('gateway')
    // As after four billion requests.
    Reflect.set(gateway.session, 'lastId', streamIdMax - 1)
    const { stream } = opened(gateway)
    expect([stream.id, gateway.session.accepting]).toEqual([streamIdMax, false])
    expect(gateway.sent.map((bytes) => decodeFrame(bytes).kind)).toEqual(['goAway', 'open'])
    expect(gateway.session.open(head, () => new Notes())).toBeNull()
    expect(gateway.ends).toEqual([])
  })

  test('≤ 1 024 open streams', () => {
    const [gateway, node] = [endOf('gateway'), endOf('node')]
    for (let i = 0; i < openStreamsMax; i++) opened(gateway)
    expect(gateway.session.open(head, () => new Notes())).toBeNull()
    for (const bytes of gateway.sent) node.session.receive(bytes)
    node.session.receive(frame(openFrame(openStreamsMax + 1, head)))
    expect(node.opened).toHaveLength(openStreamsMax)
    expect(decodeFrame(frame(node.sent.at(-1) ?? null))).toEqual({
      kind: 'reset',
      id: openStreamsMax + 1,
      code: 'too_many_streams',
    })
    expect(node.ends).toEqual([])
  })
})

test('§22: after GOAWAY of the node the gateway opens no more streams; what runs goes on', () => {
  const gateway = endOf('gateway')
  const { notes } = opened(gateway)
  gateway.session.receive(goAwayFrame())
  expect(gateway.session.accepting).toBe(false)
  expect(gateway.session.open(head, () => new Notes())).toBeNull()
  gateway.session.receive(frame(headFrame(1, answer)))
  gateway.session.receive(endFrame(1))
  expect([notes.told, gateway.ends]).toEqual([['head 200', 'ended'], []])
})

test('§22: random frames never crash an end, and never open a stream by chance', () => {
  const ids = fc.integer({ min: 0, max: 4 })
  const frames = fc.oneof(
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    fc.tuple(ids, fc.uint8Array({ minLength: 1, maxLength: 40 })).map(([id, bytes]) => dataFrame(id, bytes)),
    fc.tuple(ids, fc.nat({ max: 200_000 })).map(([id, bytes]) => windowFrameOf(id, bytes)),
    ids.map((id) => frame(openFrame(id, head))),
    ids.map((id) => frame(headFrame(id, answer))),
    ids.map((id) => resetFrame(id, 'failed')),
    ids.map(endFrame),
    fc.constant(goAwayFrame()),
  )
  fc.assert(
    fc.property(fc.constantFrom('gateway' as const, 'node' as const), fc.array(frames), (role, received) => {
      const end = endOf(role)
      if (role === 'gateway') opened(end)
      for (const bytes of received) end.session.receive(bytes)
      expect(end.ends.length).toBeLessThanOrEqual(1)
      if (role === 'gateway') expect(end.opened).toEqual([])
    }),
    { numRuns: 2_000 },
  )
})

test('docs/protocol.md shows every close code', () => {
  const protocol = readFileSync(join(import.meta.dir, '../../../docs/protocol.md'), 'utf8')
  const table = /<!-- close-codes:begin -->([\s\S]*?)<!-- close-codes:end -->/.exec(protocol)?.[1] ?? ''
  const rows = [...table.matchAll(/^\| (\d+) \| `(\w+)`/gm)].map(([, code, name]) => [name, Number(code)])
  expect(Object.fromEntries(rows)).toEqual(closeCodes)
})
