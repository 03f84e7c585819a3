import { Problem } from '../../errors.ts'
import type { Precondition } from '../../precondition.ts'
import { etagsCharactersMax } from '../../protocol/wire/shapes.ts'

const entityTag = /^(W\/)?"([\x21\x23-\x7e]*)"$/

const invalid = (param: string, detail: string) => new Problem('invalid_parameter', { param, detail })

/** The revisions of a list of entity tags. A weak one is no revision of ours: it fits none (RFC 9110, 13.1.1). */
function revisionsOf(text: string, param: string): readonly string[] {
  if (text.length > etagsCharactersMax)
    throw invalid(param, `${param} may have at most ${etagsCharactersMax} characters`)
  return text.split(',').flatMap((part) => {
    const [, weak, revision] = entityTag.exec(part.trim()) ?? []
    if (revision === undefined) throw invalid(param, `${param} must be \`*\` or an ETag in quotes, as it was read`)
    return weak === undefined ? [revision] : []
  })
}

/**
 * The caller's precondition on the row that it changes. `etag`: the member of the body, if the caller sends back a
 * whole entry as it was read.
 */
export function preconditionOf({ headers }: Request, etag: string | null = null): Precondition | null {
  const [match, none] = [headers.get('if-match'), headers.get('if-none-match')]
  if (match === null && none === null && etag === null) return null
  if (none !== null && none.trim() !== '*') throw invalid('header.if-none-match', 'If-None-Match can only be `*` here')
  const given = [
    ...(match === null || match.trim() === '*' ? [] : [revisionsOf(match, 'header.if-match')]),
    ...(etag === null ? [] : [revisionsOf(etag, 'etag')]),
  ]
  const [first, second] = given
  const both =
    first !== undefined && second !== undefined ? first.filter((one) => second.includes(one)) : (first ?? second)
  return { match: both ?? (match === null ? null : '*'), absent: none !== null }
}
