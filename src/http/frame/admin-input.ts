import { Type } from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { reasonCharactersMax } from '../../protocol/wire/shapes.ts'

/** Where a route has no body, the reason of an action travels here (§16). */
export const reasonHeader = `x-${brand}-reason`

/** The pattern excludes NUL, which would cause an error in the database. */
export const nodeParams = Type.Object({ node_id: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }) })

export function checkReasonHeader(request: Request): void {
  const given = request.headers.get(reasonHeader)
  if (given === null || given.length <= reasonCharactersMax) return
  const detail = `may have at most ${reasonCharactersMax} characters`
  throw new Problem('invalid_parameter', {
    param: `header.${reasonHeader}`,
    detail: `${reasonHeader} ${detail}`,
    errors: [{ header: reasonHeader, code: 'too_long', detail }],
  })
}
