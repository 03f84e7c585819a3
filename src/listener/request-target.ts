import { Problem } from '../errors.ts'
import { modelIdPattern } from '../ids.ts'

/** §17: the URL of a request, its host included, characters. */
const urlCharsMax = 8 * 1024

const scheme = 'http://'
/** Bun joins a header that came twice. No host that a URL can hold has a space. */
const joined = ', '

/**
 * Why a request cannot be taken as it names its target; null: it can. Bun puts the `Host` into the URL, and leaves the
 * URL without scheme and host where that one is missing, empty or no host: where its path begins could then be read
 * differently by every parser. A host sent twice, or an invalid one, is a 400 by RFC 9112, too.
 */
export function targetFault({ url, headers }: Request): Problem | null {
  if (url.length > urlCharsMax) return new Problem('invalid_parameter', { detail: 'The URL is too long' })
  if (url.startsWith(scheme) && headers.get('host')?.includes(joined) !== true) return null
  return new Problem('invalid_request', { param: 'header.host', detail: 'The Host header must name one host' })
}

/** The path of a URL that `targetFault` lets pass, or whatever begins where a path would in one that it does not. */
export function pathOf(url: string): string {
  const start = url.startsWith(scheme) ? url.indexOf('/', scheme.length) : 0
  const end = url.indexOf('?', start)
  return end === -1 ? url.slice(start) : url.slice(start, end)
}

/** Parts of a path that a proxy, a cache and a router may interpret differently (§1). */
const ambiguous = /\/\/|[\\#\u0000- \u007f]|%(?:2[ef]|5c|[01][\da-f]|7f|(?![\da-f]{2}))/i
const dotSegment = /(?:^|\/)\.\.?(?:\/|$)/
const encodedSlash = /%2f/gi
/** Those that clients encode in the id of a model. */
const encodedInIds = /%(?:2f|3a|40)/gi

/**
 * True for a path that everybody reads alike. `slashedId`: the paths in which a model's id, the first group, may have its
 * slashes encoded, as SDKs send them.
 */
export function isCanonical(path: string, slashedId: RegExp | null): boolean {
  if (!ambiguous.test(path)) return !dotSegment.test(path)
  const id = slashedId?.exec(path)?.[1]
  if (id === undefined) return false
  const plain = path.replace(encodedSlash, '/')
  return (
    !ambiguous.test(plain) &&
    !dotSegment.test(plain) &&
    modelIdPattern.test(id.replace(encodedInIds, decodeURIComponent))
  )
}

export const ambiguousPath = () =>
  new Problem('invalid_request', {
    detail:
      'The path has a backslash, an empty or dot segment, an encoded slash or dot, or an invalid escape; send it without',
  })
