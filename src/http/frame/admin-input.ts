import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { readBody } from '../../protocol/json/json-body.ts'
import { reasonCharactersMax } from '../../protocol/wire/shapes.ts'

export { parseWei } from '../../protocol/validation/parse-text.ts'

/** Where a route has no body, the reason of an action travels here (§16). */
export const reasonHeader = `x-${brand}-reason`

const id = Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })
/** The pattern excludes NUL, which would cause an error in the database. */
export const customerParams = Type.Object({ customer_id: id })
export const nodeParams = Type.Object({ node_id: id })

/** For an action without a body, or with a body that only has a reason. */
export async function readOptionalBody<S extends TSchema>(request: Request, schema: S): Promise<Static<S>> {
  checkReasonHeader(request)
  const empty = request.body === null || request.headers.get('content-length') === '0'
  return empty ? ({} as Static<S>) : readBody(request, schema)
}

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
