import { Problem } from '../errors.ts'

/** §17: the URL of a request, its host included, characters. */
export const urlCharsMax = 8 * 1024

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
