import fc from 'fast-check'
import { jsonPlaces, quoting, type Twist } from './node-twists.ts'
import { bodies, eventLines, usages } from './node-words.ts'
import { type OddValue, oddValue } from './odd-json.ts'
import { type Kinds, twistsOf } from './twists.ts'

/** One thing that is wrong with the frames by which a node answers. `§` in a text stands for the marker of the request. */
export type FrameTwist =
  | { readonly kind: 'frame order'; readonly how: FrameOrder }
  | { readonly kind: 'frame head'; readonly text: string }
  | { readonly kind: 'odd frame'; readonly type: number; readonly of: FrameTarget; readonly payload: string }
  | { readonly kind: 'window frames'; readonly bytes: number; readonly times: number }
  | { readonly kind: 'status frame'; readonly value: OddValue; readonly times: number }
  | { readonly kind: 'large status frame'; readonly value: OddValue }
  | { readonly kind: 'odd message'; readonly how: OddMessage }
  | { readonly kind: 'framed body'; readonly twist: Twist }
  | { readonly kind: 'data sizes'; readonly bytes: number; readonly times: number }
  | { readonly kind: 'late frames'; readonly how: LateFrames }
  | { readonly kind: 'tunnel end'; readonly how: 'close' | 'terminate' | 'go away' | 'second tunnel' }

export type FrameTwistKind = FrameTwist['kind']

export const frameOrders = [
  'no head',
  'data before head',
  'two heads',
  'head after end',
  'data after end',
  'two ends',
  'end first',
  'reset first',
  'reset in the middle',
  'data after reset',
  'no end',
  'nothing',
] as const
export type FrameOrder = (typeof frameOrders)[number]

/** The stream that a frame is for: its own, none, one that was never opened. */
export const frameTargets = ['own', 'zero', 'unknown'] as const
export type FrameTarget = (typeof frameTargets)[number]

export const oddMessages = ['text', 'empty', 'one byte', 'four bytes', 'too long', 'far too long'] as const
export type OddMessage = (typeof oddMessages)[number]

/** Said when nobody asks any more. */
export const lateFrames = ['data', 'head', 'end', 'reset', 'window', 'whole answer', 'next stream'] as const
export type LateFrames = (typeof lateFrames)[number]

const heads = [
  '{}',
  '[]',
  'null',
  '{"status":200}',
  '{"status":"200","headers":{}}',
  '{"status":100,"headers":{}}',
  '{"status":204,"headers":{}}',
  '{"status":600,"headers":{}}',
  '{"status":500,"headers":{}}',
  '{"status":429,"headers":{"retry-after":"§"}}',
  '{"status":400,"headers":{}}',
  '{"status":200,"headers":{"Upper":"x"}}',
  '{"status":200,"headers":{"x":"a\\r\\nb: c"}}',
  '{"status":200,"headers":{"x":1}}',
  '{"status":200,"headers":{"__proto__":"§"}}',
  '{"status":200,"headers":{"content-encoding":"gzip"}}',
  '{"status":200,"headers":{"content-encoding":"what"}}',
  '{"status":200,"headers":{"content-length":"1"}}',
  '{"status":200,"headers":{"content-type":"text/html"},"x":"§"}',
  '{"status":200,"headers":{"x":"§"},"status":201}',
  `{"status":200,"headers":{"x":${'['.repeat(20_000)}`,
  '\xff\xfe',
  '',
]

const bodyTwist: fc.Arbitrary<Twist> = fc.oneof(
  fc.record({ kind: fc.constant('other body' as const), text: fc.constantFrom(...bodies) }),
  fc.record({ kind: fc.constant('event lines' as const), text: fc.constantFrom(...eventLines), at: fc.nat(5) }),
  fc.record({ kind: fc.constant('usage lie' as const), usage: fc.constantFrom(...usages) }),
  fc.record({ kind: fc.constant('JSON shape' as const), where: fc.constantFrom(...jsonPlaces), value: oddValue(0) }),
  fc.record({ kind: fc.constant('quoting' as const), ...quoting }),
)

const payload = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom('', '§', '{}', '{"code":"§"}', '\0\0\0\x01', '\xff\xff\xff\xff', '\0\0\0\0'),
  },
  fc.string({ unit: 'binary-ascii', maxLength: 40 }),
)
const few = fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 3 }) }, fc.integer({ min: 1, max: 500 }))

/** How often each comes, in about 110, and what it may be. */
const kinds: Kinds<FrameTwist> = {
  'frame order': [18, { how: fc.constantFrom(...frameOrders) }],
  'frame head': [14, { text: fc.constantFrom(...heads) }],
  'odd frame': [18, { type: fc.integer({ min: 0, max: 10 }), of: fc.constantFrom(...frameTargets), payload }],
  'window frames': [6, { bytes: fc.constantFrom(0, 1, 65_536, 65_537, 0x7f_ff_ff_ff, 0xff_ff_ff_ff), times: few }],
  'status frame': [6, { value: oddValue(0), times: few }],
  'large status frame': [1, { value: oddValue(1) }],
  'odd message': [6, { how: fc.constantFrom(...oddMessages) }],
  'framed body': [28, { twist: bodyTwist }],
  'data sizes': [6, { bytes: fc.constantFrom(1, 100, 16_384, 65_535, 65_536, 65_537), times: few }],
  'late frames': [10, { how: fc.constantFrom(...lateFrames) }],
  'tunnel end': [5, { how: fc.constantFrom('close', 'terminate', 'go away', 'second tunnel') }],
}

export const frameTwists = twistsOf(kinds)
