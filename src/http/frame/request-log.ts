import { headers } from '../../brand.ts'
import type { ProblemCode } from '../../errors.ts'
import type { Log } from '../../log.ts'
import { jsonString, jsonStringOrNull } from '../../protocol/json/json-text.ts'

/** One finished request; every field may stand in a log (§18). */
export interface RequestLine {
  readonly requestId: string
  /** The template, never the path. */
  readonly route: string
  readonly method: string
  readonly status: number
  readonly code: ProblemCode | null
  readonly latencyMs: number
  readonly keyId?: string | null
  readonly role?: string | null
  /** From `hashAddress`. */
  readonly addressHash?: string | null
  readonly clientRequestId?: string | null
  readonly jobId?: string | null
}

const clientRequestIdPattern = /^[A-Za-z0-9._-]{1,128}$/

/** The caller's own `x-request-id`, if it has a harmless form: kept beside ours, never instead of it. */
export function clientRequestId(request: Request): string | null {
  const given = request.headers.get(headers.requestId)
  return given !== null && clientRequestIdPattern.test(given) ? given : null
}

const tenths = (ms: number) => Math.round(ms * 10) / 10

const member = (name: string, value: string | null | undefined) =>
  value == null ? '' : `,"${name}":${jsonString(value)}`

/** Written by hand: one for every request, and the general writer takes three times as long. */
export function logRequest(log: Log, line: RequestLine): void {
  const { requestId, route, method, status, code, latencyMs } = line
  log.written(
    status >= 500 ? 'warn' : 'info',
    'request',
    `,"request_id":"${requestId}","route":${jsonString(route)},"method":"${method}","status":${status},"code":${jsonStringOrNull(code)},"latency_ms":${tenths(latencyMs)}${member('key_id', line.keyId)}${member('role', line.role)}${member('ip', line.addressHash)}${member('client_request_id', line.clientRequestId)}${member('job_id', line.jobId)}`,
  )
}
