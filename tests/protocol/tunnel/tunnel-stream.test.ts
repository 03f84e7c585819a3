import { expect, test } from 'bun:test'
import { windowBytes } from '../../../src/protocol/tunnel/tunnel-frames.ts'
import { type StreamSink, TunnelStream } from '../../../src/protocol/tunnel/tunnel-stream.ts'

type Role = 'gateway' | 'node'
type Sending = 'open' | 'pending' | 'closing' | 'ended' | 'over'
type Receiving = 'headless' | 'open' | 'ended' | 'over'

const piece = Buffer.from('a piece')
const answerHead = { status: 200, headers: [] } as never

/** Both tables are those of the comment over `TunnelStream`. */
function open(role: Role) {
  let frames = 0
  const carrier = { role, clear: true, send: () => void frames++, queue: () => {}, over: () => {} }
  const stream = new TunnelStream(1, carrier)
  const told: string[] = []
  const tell = (name: string) => () => void told.push(name)
  const sink: StreamSink = {
    head: tell('head'),
    bytes: tell('bytes'),
    ended: tell('ended'),
    reset: tell('reset'),
    writable: tell('writable'),
  }
  stream.sink = sink
  return { stream, told, carrier, frames: () => frames }
}

type Opened = ReturnType<typeof open>

/** Fills the window, so that the next bytes wait for credit. */
function pend({ stream, carrier }: Opened): void {
  carrier.clear = false
  expect(stream.write(piece)).toBe(false)
}
const sendingStates: Readonly<Record<Sending, (opened: Opened) => void>> = {
  open: () => {},
  pending: pend,
  closing: (opened) => {
    pend(opened)
    opened.stream.end()
  },
  ended: ({ stream }) => stream.end(),
  over: ({ stream }) => stream.receivedReset('failed'),
}

/** By what it does with a turn and with another write; the stream is used up by it. */
function sendingOf({ stream, told, frames }: Opened): Sending {
  if (stream.over) return 'over'
  told.length = 0
  const before = frames()
  stream.takeTurn()
  const sent = frames() - before
  if (sent === 2) return 'closing'
  if (sent === 1) return stream.over ? 'closing' : 'pending'
  try {
    stream.write(piece)
    return 'open'
  } catch {
    return 'ended'
  }
}

const sending: readonly (readonly [Sending, string, (stream: TunnelStream) => unknown, Sending | 'throws'])[] = [
  ['open', 'write', (stream) => stream.write(piece), 'open'],
  ['open', 'write of too much', (stream) => stream.write(Buffer.alloc(windowBytes + 1)), 'pending'],
  ['open', 'end', (stream) => stream.end(), 'ended'],
  ['open', 'reset', (stream) => stream.reset('failed'), 'over'],
  ['pending', 'write', (stream) => stream.write(piece), 'throws'],
  ['pending', 'end', (stream) => stream.end(), 'closing'],
  ['pending', 'takeTurn', (stream) => stream.takeTurn(), 'open'],
  ['pending', 'reset', (stream) => stream.receivedReset('failed'), 'over'],
  ['closing', 'write', (stream) => stream.write(piece), 'throws'],
  ['closing', 'end', (stream) => stream.end(), 'closing'],
  ['closing', 'takeTurn', (stream) => stream.takeTurn(), 'ended'],
  ['closing', 'reset', (stream) => stream.reset('failed'), 'over'],
  ['ended', 'write', (stream) => stream.write(piece), 'throws'],
  ['ended', 'end', (stream) => stream.end(), 'ended'],
  ['ended', 'reset', (stream) => stream.receivedReset('failed'), 'over'],
  ['over', 'write', (stream) => stream.write(piece), 'over'],
  ['over', 'end', (stream) => stream.end(), 'over'],
  ['over', 'reset', (stream) => stream.reset('failed'), 'over'],
]

test.each(['gateway', 'node'] as const)('what the %s’s end sends follows its table', (role) => {
  for (const [from, event, act, to] of sending) {
    const opened = open(role)
    sendingStates[from](opened)
    // On the node's end an answer that was sent whole is over.
    const wholeIsOver = (state: Sending) => (role === 'node' && state === 'ended' ? 'over' : state)
    if (to === 'throws') {
      if (wholeIsOver(from) === 'over') expect(act(opened.stream)).toBe(true)
      else expect(() => act(opened.stream)).toThrow('before it was writable')
      continue
    }
    act(opened.stream)
    expect([from, event, sendingOf(opened)]).toEqual([from, event, wholeIsOver(to)])
  }
})

const receivingStates: Readonly<Record<Receiving, (stream: TunnelStream) => void>> = {
  headless: () => {},
  open: (stream) => void stream.receivedHead(answerHead),
  ended: (stream) => void stream.receivedEnd(),
  over: (stream) => stream.receivedReset('failed'),
}
const events = {
  receivedHead: (stream: TunnelStream) => stream.receivedHead(answerHead),
  receivedBytes: (stream: TunnelStream) => stream.receivedBytes(piece) === 'taken',
  receivedEnd: (stream: TunnelStream) => stream.receivedEnd(),
  receivedReset: (stream: TunnelStream) => {
    stream.receivedReset('failed')
    return true
  },
}

/** Which events it takes: each state takes others. */
function receivingOf(role: Role, reach: (stream: TunnelStream) => void): Receiving {
  const takes = (act: (stream: TunnelStream) => boolean) => {
    const { stream } = open(role)
    reach(stream)
    return act(stream)
  }
  const probe = open(role)
  reach(probe.stream)
  if (probe.stream.over) return 'over'
  if (takes(events.receivedHead)) return 'headless'
  return takes(events.receivedBytes) ? 'open' : 'ended'
}

const receiving: Readonly<Record<Role, Readonly<Partial<Record<Receiving, readonly (Receiving | 'fault')[]>>>>> = {
  gateway: {
    headless: ['open', 'fault', 'fault', 'over'],
    open: ['fault', 'open', 'over', 'over'],
  },
  node: {
    open: ['fault', 'open', 'ended', 'over'],
    ended: ['fault', 'fault', 'fault', 'over'],
  },
}

test.each(['gateway', 'node'] as const)('what the %s’s end receives follows its table', (role) => {
  for (const [from, row] of Object.entries(receiving[role])) {
    const reach = receivingStates[from as Receiving]
    for (const [at, [event, act]] of Object.entries(events).entries()) {
      const { stream } = open(role)
      reach(stream)
      const taken = act(stream)
      const state = taken
        ? receivingOf(role, (other) => {
            reach(other)
            act(other)
          })
        : 'fault'
      expect([from, event, state]).toEqual([from, event, row[at] ?? 'missing'])
    }
  }
})
