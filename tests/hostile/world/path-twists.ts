import fc from 'fast-check'

/** One request to a path that may be read differently by two programs, at one of the listeners. */
export interface PathCase {
  readonly listener: number
  /** Of the paths that the listener answers. */
  readonly path: number
  readonly changes: readonly PathChange[]
  readonly method: (typeof methods)[number]
  readonly header: string | null
  readonly form: (typeof targetForms)[number]
}

/** Bytes in a path, at one of its places. */
export interface PathChange {
  readonly at: number
  readonly text: string
  /** A segment of its own, or beside one. */
  readonly as: 'segment' | 'begins' | 'ends'
}

const methods = ['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH'] as const
export const targetForms = ['path', 'absolute', 'with a query'] as const

/** Latin1. Those that are harmless show that not everything is refused. */
export const pathNoise = [
  ...['', '.', '..', '...', '/', '//', '\\', '\\\\', '..\\', '\\..', './', '../', '/..', '/.'],
  ...['%2e', '%2E', '%2e%2e', '.%2e', '%2E.', '%2f', '%2F', '%5c', '%5C', '%252e', '%252f', '%c0%ae', '%c0%af'],
  ...['%00', '%0a', '%0D', '%09', '%1f', '%7f', '\x7f', '%', '%2', '%zz', '%u002e', '%%32%65', '#', '#x'],
  ...['\0', '\t', '\x01', '\x1f', '\x0b', ' '],
  ...['a', '..;', ';x', '%61', '%20', '\xe9', '|', '^', '~', '@', ':', '*', '?x=//', '?x=..%2f'],
]

const headers = [
  'Upgrade: websocket\r\nConnection: close, upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13',
  'Origin: https://elsewhere.example\r\nAccess-Control-Request-Method: GET',
  'X-Forwarded-Prefix: /v1/admin',
  'X-Original-URL: /v1/admin/customers',
  'X-Rewrite-URL: /v1/admin/customers',
  'Content-Type: application/json',
]

const change: fc.Arbitrary<PathChange> = fc.record(
  { at: fc.nat(6), text: fc.constantFrom(...pathNoise), as: fc.constantFrom('segment', 'begins', 'ends') },
  { noNullPrototype: true },
)

export const pathCase: fc.Arbitrary<PathCase> = fc.record(
  {
    listener: fc.nat(5),
    path: fc.nat(7),
    changes: fc.array(change, { minLength: 1, maxLength: 3, size: 'max' }),
    method: fc.oneof({ weight: 3, arbitrary: fc.constant('GET' as const) }, fc.constantFrom(...methods)),
    header: fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, fc.constantFrom(...headers)),
    form: fc.oneof({ weight: 6, arbitrary: fc.constant('path' as const) }, fc.constantFrom(...targetForms)),
  },
  { noNullPrototype: true },
)

/** The path of a route with the changes in it. */
export function changed(path: string, changes: readonly PathChange[]): string {
  const segments = path.split('/').slice(1)
  for (const { at, text, as } of changes) {
    const place = Math.min(at, segments.length)
    const own = segments[place] ?? ''
    if (as === 'segment') segments.splice(place, 0, text)
    else segments[place] = as === 'begins' ? text + own : own + text
  }
  return `/${segments.join('/')}`
}

/** How a target is judged: refused by its path (§1), ended by its bytes, or any answer but a failure. */
export type Judgement = 'refused' | 'ended' | 'anything'

const segmentsMax = 32
/** §28: the id of a model may have its slashes encoded. */
const slashedIds = /^\/(?:v1\/(?:api\/)?models|svc\/v1\/models)\/[^/]/

/** By the sentences of §1 alone. */
export function judged(path: string): Judgement {
  const [before = ''] = path.split('?')
  if (/[\x00-\x20]/.test(path)) return 'ended'
  if (slashedIds.test(before) && /%2f/i.test(before)) return 'anything'
  const segments = before.split('/').slice(1)
  const last = segments.at(-1) === '' ? segments.slice(0, -1) : segments
  const ambiguous =
    /[\\#\x7f]|\/\/|%2e|%2f|%5c|%[01][0-9a-f]|%7f/i.test(before) ||
    segments.some((segment) => segment === '.' || segment === '..') ||
    /%(?![0-9a-f]{2})/i.test(before) ||
    last.length > segmentsMax
  return ambiguous ? 'refused' : 'anything'
}
