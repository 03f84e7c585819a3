import { outageOf } from '../../db/outage.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import { failureName, type Log } from '../../log.ts'

const isAbort = (error: unknown) => error instanceof Error && error.name === 'AbortError'

/** A schema of Elysia that did not match. `on` says whether the request or our own answer broke it. */
function brokenSchema(error: unknown): string | null {
  const { code, type } = error as { code?: unknown; type?: unknown }
  return code === 'VALIDATION' && typeof type === 'string' ? type : null
}

/** The codes for path parameters that name nothing. */
const absentCodes: Readonly<Record<string, ProblemCode>> = {
  admin_id: 'admin_not_found',
  batch_id: 'batch_not_found',
  command_id: 'command_not_found',
  customer_id: 'customer_not_found',
  job_id: 'job_not_found',
  join_id: 'join_not_found',
  key_id: 'key_not_found',
  machine: 'machine_not_found',
  node_id: 'node_not_found',
  pull_id: 'pull_not_found',
  receipt_hash: 'receipt_not_found',
  session_id: 'session_not_found',
  token_id: 'enrollment_token_not_found',
  webhook_id: 'webhook_not_found',
}

/**
 * The only part of a request that Elysia itself checks is the path (bodies and queries: `readsBy`, `asks`). An id
 * in a form that none has is the id of nothing (§27).
 */
function invalidPath(error: unknown): Problem {
  const { valueError } = error as { valueError?: { path?: unknown } }
  const parameter = typeof valueError?.path === 'string' ? valueError.path.replace('/', '') : ''
  return new Problem(absentCodes[parameter] ?? 'route_not_found', { param: `path.${parameter}` })
}

export const clientClosedStatus = 499

/**
 * The answer for anything that was thrown; null if the client has left. A defect is logged here, once, and only by its
 * class: messages can contain data that must not be shown.
 */
export function problemOf(error: unknown, log: Log, place: { requestId: string; route: string }): Problem | null {
  if (error instanceof Problem) return error
  if (isAbort(error)) return null
  const schema = brokenSchema(error)
  if (schema !== null && schema !== 'response') return invalidPath(error)
  const failure = schema === null ? failureName(error) : 'response_schema'
  const outage = schema === null ? outageOf(error) : null
  if (outage !== null) {
    const fields = { request_id: place.requestId, route: place.route, failure }
    log.counted(outage, 'warn', outage, JSON.stringify(fields))
    return new Problem('service_unavailable')
  }
  log.error('unhandled', { request_id: place.requestId, route: place.route, failure })
  return new Problem('internal_error')
}
