import { payloadBytesMax, windowBytes } from '../../../src/protocol/tunnel/tunnel-frames.ts'
import { drafted, fillOf, plainBody, type Wanted } from './answer-draft.ts'
import type { FrameTarget, FrameTwist, LateFrames, OddMessage } from './frame-twists.ts'
import type { Twist } from './node-twists.ts'
import { oddText } from './odd-json.ts'
import type { Confided } from './quoting.ts'

/** What a node that has dialled in does, in order. */
export type FrameMove =
  | { readonly do: 'send'; readonly message: Buffer | string }
  /** Until nobody asks: see `Move`. */
  | { readonly do: 'quiet' }
  | { readonly do: 'close' | 'terminate' | 'dial' }

/** By hand, so that nothing stops a frame that is wrong. */
export const frameTypes = { open: 1, data: 2, end: 3, head: 4, reset: 5, window: 6, status: 7, goAway: 8 } as const

export function frame(type: number, id: number, payload: Buffer | string = ''): Buffer {
  const bytes = typeof payload === 'string' ? Buffer.from(payload, 'latin1') : payload
  const head = Buffer.alloc(5)
  head[0] = type
  head.writeUInt32BE(id, 1)
  return Buffer.concat([head, bytes])
}

const { data, end, head, reset, window, status, goAway } = frameTypes
const pieceBytes = 16 * 1024

function windowOf(id: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4)
  payload.writeUInt32BE(bytes)
  return frame(window, id, payload)
}

function piecesOf(id: number, body: Buffer): readonly Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < body.length; at += pieceBytes) pieces.push(frame(data, id, body.subarray(at, at + pieceBytes)))
  return pieces
}

interface Answering {
  readonly id: number
  readonly marker: string
  readonly wanted: Wanted
  readonly confided: Confided | null
}

function ordered(twist: FrameTwist | undefined, begin: Buffer, said: readonly Buffer[], id: number): readonly Buffer[] {
  const over = frame(end, id)
  const cancelled = frame(reset, id, '{"code":"cancelled"}')
  switch (twist?.kind === 'frame order' ? twist.how : null) {
    case 'no head':
      return [...said, over]
    case 'data before head':
      return [...said, begin, over]
    case 'two heads':
      return [begin, begin, ...said, over]
    case 'head after end':
      return [begin, ...said, over, begin]
    case 'data after end':
      return [begin, ...said, over, ...said]
    case 'two ends':
      return [begin, ...said, over, over]
    case 'end first':
      return [over, begin, ...said]
    case 'reset first':
      return [cancelled]
    case 'reset in the middle':
      return [begin, ...said.slice(0, 1), cancelled]
    case 'data after reset':
      return [begin, cancelled, ...said, over]
    case 'no end':
      return [begin, ...said]
    case 'nothing':
      return []
    default:
      return [begin, ...said, over]
  }
}

const idOf = (target: FrameTarget, id: number) => ({ own: id, zero: 0, unknown: 0xff_ff_ff_00 })[target]

const messages: Readonly<Record<OddMessage, () => Buffer | string>> = {
  text: () => 'text',
  empty: () => Buffer.alloc(0),
  'one byte': () => Buffer.of(2),
  'four bytes': () => Buffer.of(2, 0, 0, 0),
  'too long': () => frame(data, 1, Buffer.alloc(payloadBytesMax + 1)),
  'far too long': () => Buffer.alloc(4 * payloadBytesMax),
}

/** What comes between the head and the body. */
function between(twist: FrameTwist, { id, marker }: Answering): readonly (Buffer | string)[] {
  const filled = (text: string) => text.replaceAll('§', marker)
  switch (twist.kind) {
    case 'odd frame':
      return [frame(twist.type, idOf(twist.of, id), filled(twist.payload))]
    case 'window frames':
      return Array.from({ length: twist.times }, () => windowOf(id, twist.bytes))
    case 'status frame':
      return Array.from({ length: twist.times }, () => frame(status, 0, filled(oddText(twist.value))))
    case 'large status frame':
      return [frame(status, 0, filled(`{"a":${oddText(twist.value)}}`).slice(0, payloadBytesMax))]
    case 'odd message':
      return [messages[twist.how]()]
    case 'data sizes':
      return Array.from({ length: Math.min(twist.times, 1 + (4 * windowBytes) / twist.bytes) }, () =>
        frame(data, id, Buffer.alloc(twist.bytes, 32)),
      )
    case 'tunnel end':
      return twist.how === 'go away' ? [frame(goAway, 0)] : []
    default:
      return []
  }
}

function lateOf(how: LateFrames, { id, marker }: Answering): readonly Buffer[] {
  const begin = frame(head, id, '{"status":200,"headers":{}}')
  const said = frame(data, id, `{"choices":[{"message":{"content":"${marker}"}}]}`)
  switch (how) {
    case 'data':
      return [said]
    case 'head':
      return [begin]
    case 'end':
      return [frame(end, id)]
    case 'reset':
      return [frame(reset, id, '{"code":"failed"}')]
    case 'window':
      return [windowOf(id, 1)]
    case 'whole answer':
      return [begin, said, frame(end, id)]
    case 'next stream':
      // Without a marker: the stream may be opened before this is read, and then a node has answered its request.
      return [1, 2, 3].flatMap((more) => {
        const early = { id: id + more, marker: 'early', wanted: 'whole', confided: null } as const
        return lateOf('whole answer', early)
      })
  }
}

/** What a node does for this request that is twisted so. */
export function frameMoves(twists: readonly FrameTwist[], answering: Answering): readonly FrameMove[] {
  const { id, marker, wanted } = answering
  const find = <K extends FrameTwist['kind']>(kind: K) =>
    twists.find((one): one is Extract<FrameTwist, { kind: K }> => one.kind === kind)
  const inside: readonly Twist[] = twists.flatMap((one) => (one.kind === 'framed body' ? [one.twist] : []))
  const type = wanted === 'stream' ? 'text/event-stream' : 'application/json'
  const draft = drafted(inside, wanted)
  const fill = fillOf(draft, answering)
  const status = / ([0-9]{3})/.exec(draft.start)?.[1] ?? '200'
  const text = find('frame head')?.text ?? `{"status":${status},"headers":{"content-type":"${type}"}}`
  const begin = frame(head, id, text.replaceAll('§', marker))
  const all: (Buffer | string)[] = [
    ...ordered(find('frame order'), begin, piecesOf(id, plainBody(draft, wanted, fill)), id),
  ]
  all.splice(1, 0, ...twists.flatMap((one) => between(one, answering)))
  const moves: FrameMove[] = all.map((message) => ({ do: 'send', message }))
  const ending = find('tunnel end')?.how
  if (ending === 'close' || ending === 'terminate') moves.splice(2, 0, { do: ending })
  if (ending === 'second tunnel') moves.splice(1, 0, { do: 'dial' })
  const late = find('late frames')
  if (late === undefined) return moves
  return [
    ...moves,
    { do: 'quiet' },
    ...lateOf(late.how, answering).map((message) => ({ do: 'send', message }) as const),
  ]
}
