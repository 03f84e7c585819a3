import fc from 'fast-check'
import { bodies, eventLines, headerLines, interims, startLines, usages } from './node-words.ts'
import { type OddValue, oddValue } from './odd-json.ts'
import { type Quote, type QuotePlace, quoteForms, quotePlaces } from './quoting.ts'
import { type Kinds, twistsOf } from './twists.ts'

/** One thing that is wrong with a node's answer. `§` in a text stands for the marker of the request. */
export type Twist =
  | { readonly kind: 'start line'; readonly line: string }
  | { readonly kind: 'interim answers'; readonly text: string; readonly times: number }
  | { readonly kind: 'header'; readonly line: string; readonly times: number }
  | { readonly kind: 'framing'; readonly how: Framing }
  | { readonly kind: 'chunk sizes'; readonly sizes: readonly number[]; readonly style: ChunkStyle }
  | { readonly kind: 'trailer'; readonly line: string; readonly times: number }
  | { readonly kind: 'compression'; readonly how: Compression }
  | { readonly kind: 'JSON shape'; readonly where: JsonPlace; readonly value: OddValue }
  | { readonly kind: 'large JSON'; readonly where: JsonPlace; readonly value: OddValue }
  | { readonly kind: 'usage lie'; readonly usage: string }
  | { readonly kind: 'event lines'; readonly text: string; readonly at: number }
  | { readonly kind: 'other body'; readonly text: string }
  | { readonly kind: 'cut short'; readonly keepPermille: number; readonly behind: 'end' | 'reset' | 'silence' }
  | { readonly kind: 'second answer'; readonly how: Second }
  | { readonly kind: 'in pieces'; readonly atPermille: readonly number[]; readonly pauseMs: number }
  | { readonly kind: 'endless'; readonly what: Endless }
  | { readonly kind: 'early answer' }
  | QuotingTwist

/** It quotes what its request told it in confidence. */
export type QuotingTwist = Quote & { readonly kind: 'quoting'; readonly where: QuotePlace }

export type TwistKind = Twist['kind']

export const framings = [
  'length',
  'length twice',
  'two lengths',
  'length list',
  'too long',
  'too short',
  'negative',
  'signed',
  'hex length',
  'huge length',
  'no length',
  'chunked',
  'chunked and length',
  'chunked twice',
  'Chunked, identity',
  'gzip, chunked',
  'chunked in HTTP/1.0',
  'until close',
] as const
export type Framing = (typeof framings)[number]

export const chunkStyles = [
  'plain',
  'extension',
  'quoted extension',
  'upper case',
  'leading zeros',
  'blank after',
  'blank before',
  '0x',
  'bare LF',
  'no end of data',
  'one byte more',
  'one byte less',
  'huge size',
  'negative size',
  'no last chunk',
  'no empty line',
  'two last chunks',
] as const
export type ChunkStyle = (typeof chunkStyles)[number]

export const compressions = [
  'gzip',
  'deflate',
  'br',
  'zstd',
  'x-gzip',
  'GZIP',
  'gzip twice',
  'unknown',
  'lie',
  'cut',
  'garbage behind',
  'bomb',
] as const
export type Compression = (typeof compressions)[number]

export const jsonPlaces = ['index', 'finish', 'usage', 'message', 'content', 'choice', 'top', 'svc', 'tool'] as const
export type JsonPlace = (typeof jsonPlaces)[number]

export const seconds = ['glued', 'glued thrice', 'glued half', 'glued junk', 'late', 'late junk', 'late half'] as const
export type Second = (typeof seconds)[number]

export const endless = [
  'interim',
  'header',
  'trailer',
  'extension',
  'comment',
  'line',
  'tiny chunks',
  'tokens',
] as const
export type Endless = (typeof endless)[number]

const permille = fc.nat(1_000)
const times = fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 3 }) }, fc.integer({ min: 1, max: 2_000 }))
const behind = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom('end' as const, 'reset' as const) },
  fc.constant('silence' as const),
)
const where = fc.constantFrom(...jsonPlaces)
const sizes = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 6 })
const atPermille = fc.array(permille, { minLength: 1, maxLength: 5 })

const quotePlace = fc.constantFrom(...(Object.keys(quotePlaces) as QuotePlace[]))
/** What a quoting twist may be, for whoever answers in another way than by HTTP. */
export const quoting = {
  where: quotePlace,
  form: fc.constantFrom(...quoteForms),
  shift: fc.constantFrom(0 as const, 1 as const, 2 as const),
}

/** How often each comes, in about 150, and what it may be. Those that wait for a deadline or move megabytes are few. */
const kinds: Kinds<Twist> = {
  'start line': [8, { line: fc.constantFrom(...startLines) }],
  'interim answers': [5, { text: fc.constantFrom(...interims), times }],
  header: [10, { line: fc.constantFrom(...headerLines), times }],
  framing: [10, { how: fc.constantFrom(...framings) }],
  'chunk sizes': [10, { sizes, style: fc.constantFrom(...chunkStyles) }],
  trailer: [4, { line: fc.constantFrom(...headerLines), times }],
  compression: [8, { how: fc.constantFrom(...compressions) }],
  'JSON shape': [10, { where, value: oddValue(0) }],
  'large JSON': [1, { where, value: oddValue(1) }],
  'usage lie': [6, { usage: fc.constantFrom(...usages) }],
  'event lines': [10, { text: fc.constantFrom(...eventLines), at: fc.nat(5) }],
  'other body': [6, { text: fc.constantFrom(...bodies) }],
  'cut short': [6, { keepPermille: permille, behind }],
  'second answer': [14, { how: fc.constantFrom(...seconds) }],
  'in pieces': [8, { atPermille, pauseMs: fc.constantFrom(0, 1, 5) }],
  endless: [1, { what: fc.constantFrom(...endless) }],
  'early answer': [2, {}],
  quoting: [20, quoting],
}

export const twists = twistsOf(kinds)
