import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { readBody } from '../../protocol/json/json-body.ts'
import { reasonCharactersMax } from '../../protocol/wire/shapes.ts'

/** Where a route has no body, the reason of an action travels here (§16). */
export const reasonHeader = `x-${brand}-reason`

const id = Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })
/** The pattern excludes NUL, which would cause an error in the database. */
export const customerParams = Type.Object({ customer_id: id })
export const keyParams = Type.Object({ key_id: id })
export const nodeParams = Type.Object({ node_id: id })
export const enrollmentTokenParams = Type.Object({ token_id: id })

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

const weiMax = 2n ** 256n - 1n

export function parseWei(text: string | null | undefined, param: string): bigint | null {
  if (text == null) return null
  const amount = BigInt(text)
  if (amount <= weiMax) return amount
  throw new Problem('invalid_request', { param, detail: `${param} is more than 2^256 - 1` })
}

const instantPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/

export function parseInstant(text: string | null | undefined, param: string): Date | null {
  if (text == null) return null
  const at = new Date(text)
  if (instantPattern.test(text) && !Number.isNaN(at.getTime())) return at
  throw new Problem('invalid_request', { param, detail: `${param} must be a time like 2026-11-20T16:00:00Z` })
}
