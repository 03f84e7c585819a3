import fc from 'fast-check'
import { hosts, mangledTargets, requestBodies, requestHeaders, requestLines } from './client-words.ts'
import { type ChunkStyle, chunkStyles } from './node-twists.ts'
import { type OddValue, oddValue } from './odd-json.ts'
import { type Kinds, twistsOf } from './twists.ts'

/** One thing that is wrong with a request. `§` in a text stands for its marker. */
export type ClientTwist =
  | { readonly kind: 'request line'; readonly line: string }
  | { readonly kind: 'host'; readonly host: string; readonly twice: boolean }
  | { readonly kind: 'no host' }
  | { readonly kind: 'request header'; readonly line: string; readonly times: number }
  | { readonly kind: 'request chunks'; readonly sizes: readonly number[]; readonly style: ChunkStyle }
  | { readonly kind: 'wrong length'; readonly by: number }
  | { readonly kind: 'request JSON'; readonly where: BodyPlace; readonly value: OddValue }
  | { readonly kind: 'large request JSON'; readonly where: BodyPlace; readonly value: OddValue }
  | { readonly kind: 'request body'; readonly text: string }
  | { readonly kind: 'many messages'; readonly count: number }
  | { readonly kind: 'unfinished'; readonly keepPermille: number; readonly halfClose: boolean }
  | { readonly kind: 'slow request'; readonly atPermille: readonly number[]; readonly pauseMs: number }
  | { readonly kind: 'pipelined'; readonly more: number }
  | { readonly kind: 'junk behind'; readonly text: string }
  | { readonly kind: 'deaf client'; readonly deafMs: number }
  | { readonly kind: 'other path'; readonly target: string; readonly host: string }

export type ClientTwistKind = ClientTwist['kind']

export const bodyPlaces = [
  'model',
  'messages',
  'content',
  'role',
  'name',
  'part',
  'tools',
  'stream',
  'max_tokens',
  'stop',
  'svc',
  'mixture',
  'logit_bias',
  'top',
] as const
export type BodyPlace = (typeof bodyPlaces)[number]

const permille = fc.nat(1_000)
const where = fc.constantFrom(...bodyPlaces)
const host = fc.constantFrom(...hosts)

/** How often each comes, in about 100, and what it may be. */
const kinds: Kinds<ClientTwist> = {
  'request line': [10, { line: fc.constantFrom(...requestLines) }],
  host: [8, { host, twice: fc.boolean() }],
  'no host': [1, {}],
  'request header': [
    12,
    {
      line: fc.constantFrom(...requestHeaders),
      times: fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 3 }) }, fc.integer({ min: 1, max: 300 })),
    },
  ],
  'request chunks': [
    8,
    {
      sizes: fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 5 }),
      style: fc.constantFrom(...chunkStyles),
    },
  ],
  'wrong length': [6, { by: fc.integer({ min: -40, max: 40 }) }],
  'request JSON': [14, { where, value: oddValue(0) }],
  'large request JSON': [1, { where, value: oddValue(4) }],
  'request body': [6, { text: fc.constantFrom(...requestBodies) }],
  'many messages': [1, { count: fc.nat(25_000) }],
  unfinished: [8, { keepPermille: permille, halfClose: fc.boolean() }],
  'slow request': [
    6,
    { atPermille: fc.array(permille, { minLength: 1, maxLength: 5 }), pauseMs: fc.constantFrom(0, 1, 10) },
  ],
  pipelined: [10, { more: fc.integer({ min: 1, max: 4 }) }],
  'junk behind': [4, { text: fc.constantFrom('§', '\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n', '\0\0\0', '0\r\n\r\n') }],
  'deaf client': [1, { deafMs: fc.nat(300) }],
  'other path': [6, { target: fc.constantFrom(...mangledTargets), host }],
}

export const clientTwists = twistsOf(kinds)
