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

/** What Bun puts in the place of an escape that is none, and of the two characters behind it: a backslash may be one of them. */
const unreadable = /[\\\ufffd]/

/** A segment as Bun decoded it. Of those that were encoded, the check of the URL finds what remains. */
const isPlain = (segment = '') => !isDots(segment) && !unreadable.test(segment)

/** What answers paths of so many segments. */
function checked(count: number, { answer, refuse, slashedId }: CanonicalRoutesOptions) {
  const own = names.slice(0, count)
  return (request: BunRequest): Answer => {
    const segments = request.params as Readonly<Record<string, string>>
    for (const name of own) if (!isPlain(segments[name])) return refuse(request)
    return isCanonical(pathOf(request.url), slashedId) ? answer(request) : refuse(request)
  }
}

/**
 * Routes for Bun's server which let only canonical paths pass. `request.url` has lost what it takes to tell: Bun resolves dot
 * segments and turns backslashes into slashes before anybody sees the URL. Its own router matches the bytes as they were sent
 * (seen on 1.4.5). So paths that are known byte for byte pass at once, the rest by the number of their segments, which are then
 * looked at, and all that is left has an empty segment or too many.
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
