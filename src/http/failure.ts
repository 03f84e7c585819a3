import { Problem } from '../errors.ts'
import { failureName, type Log } from '../log.ts'

/**
 * Codes by which driver and server say that the database is away (or has no connection left): the caller may try
 * again, nothing is wrong with the request. SQLSTATE classes 08 and 57P, 53300, and what a query that ran out of its
 * time gets.
 */
const outageCode =
  /^(ECONNREFUSED|ECONNRESET|ENOENT|EPIPE|ETIMEDOUT|CONNECTION_(CLOSED|ENDED|DESTROYED)|CONNECT_TIMEOUT|08...|57P0.|57014|53300)$/

const isAbort = (error: unknown) => error instanceof Error && error.name === 'AbortError'

/** A failed schema of Elysia: `on` tells whether the caller's part or our own answer broke it. */
function brokenSchema(error: unknown): string | null {
  const { code, type } = error as { code?: unknown; type?: unknown }
  return code === 'VALIDATION' && typeof type === 'string' ? type : null
}

/** The only part of a request that Elysia itself checks is the path (bodies and queries: `readBody`, `readQuery`). */
function invalidPath(error: unknown): Problem {
  const { valueError } = error as { valueError?: { path?: unknown } }
  const parameter = typeof valueError?.path === 'string' ? valueError.path.replace('/', '') : ''
  const detail = `${parameter} has a form that is not valid`
  return new Problem('invalid_parameter', {
    param: `path.${parameter}`,
    detail,
    errors: [{ parameter, code: 'invalid', detail }],
  })
}

export const clientClosedStatus = 499

/**
 * What the caller is told of anything that was thrown; null: nobody is there any more. A defect is logged here, once,
 * by its class alone: messages can hold what the caller or the database must not show.
 */
export function problemOf(error: unknown, log: Log, place: { requestId: string; route: string }): Problem | null {
  if (error instanceof Problem) return error
  if (isAbort(error)) return null
  const schema = brokenSchema(error)
  if (schema !== null && schema !== 'response') return invalidPath(error)
  const failure = schema === null ? failureName(error) : 'response_schema'
  if (schema === null && outageCode.test(failure)) {
    log.warn('database_away', { request_id: place.requestId, route: place.route, failure })
    return new Problem('service_unavailable')
  }
  log.error('unhandled', { request_id: place.requestId, route: place.route, failure })
  return new Problem('internal_error')
}
