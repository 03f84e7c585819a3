import type { BunRequest } from 'bun'
import { isCanonical, pathOf } from './request-target.ts'

type Answer = Response | Promise<Response>
type Routed = (request: Request) => Answer

export interface CanonicalRoutesOptions {
  /** Paths that have routes, as Elysia writes them. */
  readonly paths: Iterable<string>
  readonly slashedId: RegExp | null
  readonly answer: Routed
  readonly refuse: Routed
}

/** A path with more segments is refused. */
const segmentsMax = 32
const names = Array.from({ length: segmentsMax }, (_, at) => `s${at}`)

const isDots = (segment: string | undefined) => segment === '.' || segment === '..'

/** Bun's replacement for an invalid escape and the two characters after it, one of which may be a backslash. */
const unreadable = /[\\\ufffd]/

/** A segment as Bun decoded it. Of those that were encoded, the check of the URL finds what remains. */
const isPlain = (segment = '') => !isDots(segment) && !unreadable.test(segment)

/** Handles paths of `count` segments. */
function checked(count: number, { answer, refuse, slashedId }: CanonicalRoutesOptions) {
  const own = names.slice(0, count)
  return (request: BunRequest): Answer => {
    const segments = request.params as Readonly<Record<string, string>>
    for (const name of own) if (!isPlain(segments[name])) return refuse(request)
    return isCanonical(pathOf(request.url), slashedId) ? answer(request) : refuse(request)
  }
}

/**
 * Routes for Bun's server that accept only canonical paths. `request.url` does not show whether a path was canonical:
 * Bun has already resolved dot segments and turned backslashes into slashes. Bun's own router matches the bytes as they
 * were sent (seen on 1.4.5). Paths that are known byte for byte therefore pass at once. Other paths match by their
 * number of segments, and each segment is then checked. All remaining paths have an empty segment or too many.
 */
export function canonicalRoutes(options: CanonicalRoutesOptions): Record<string, (request: BunRequest) => Answer> {
  const { answer, refuse } = options
  const plain = [...options.paths].filter((path) => !/[:*]/.test(path))
  const counted = names.map((_, at) => {
    const pattern = names.slice(0, at + 1).map((name) => `/:${name}`)
    return [pattern.join(''), checked(at + 1, options)] as const
  })
  return Object.fromEntries([
    ['/*', refuse],
    ...counted.flatMap(([pattern, handler]) => [[pattern, handler] as const, [`${pattern}/`, handler] as const]),
    ...plain.map((path) => [path, answer] as const),
    ['/', answer],
  ])
}
