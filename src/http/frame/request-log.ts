import { headers } from '../../brand.ts'
import { type ProblemCode, problemKinds } from '../../errors.ts'
import type { Log } from '../../log.ts'

/** One finished request; every field is safe to log (§18). */
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
  /** Of inference: the public id of a model that was found, and the node that was called last. */
  readonly model?: string | null
  readonly nodeId?: string | null
  readonly tries?: number
  readonly ttftMs?: number | null
  readonly promptTokens?: number | null
  readonly completionTokens?: number | null
  /** The caller is unknown: such requests can come without end, so they are only counted (§18). */
  readonly stranger: boolean
}

const clientRequestIdPattern = /^[A-Za-z0-9._-]{1,128}$/

/** The caller's own `x-request-id`, if it has a harmless form: kept beside ours, never instead of it. */
export function clientRequestId(request: Request): string | null {
  const given = request.headers.get(headers.requestId)
  return given !== null && clientRequestIdPattern.test(given) ? given : null
}

const tenths = (ms: number) => Math.round(ms * 10) / 10

/** Not a fault of the gateway, which always gets a line of its own. */
const isRefusal = (code: ProblemCode | null): code is ProblemCode =>
  code !== null && (problemKinds[code].status < 500 || code === 'service_unavailable')

/** The engine's own writer makes the text of one flat object in half the time of a template, of which every piece is a string of its own. */
export function logRequest(log: Log, line: RequestLine): void {
  const { code, status, ttftMs } = line
  const level = status >= 500 ? 'warn' : 'info'
  const object = JSON.stringify({
    request_id: line.requestId,
    route: line.route,
    method: line.method,
    status,
    code,
    latency_ms: tenths(line.latencyMs),
    key_id: line.keyId ?? undefined,
    role: line.role ?? undefined,
    ip: line.addressHash ?? undefined,
    client_request_id: line.clientRequestId ?? undefined,
    job_id: line.jobId ?? undefined,
    model: line.model ?? undefined,
    node_id: line.nodeId ?? undefined,
    tries: line.tries,
    ttft_ms: ttftMs == null ? undefined : tenths(ttftMs),
    prompt_tokens: line.promptTokens ?? undefined,
    completion_tokens: line.completionTokens ?? undefined,
  })
  if (line.stranger && isRefusal(code)) log.counted(code, level, 'request', object)
  else log.written(level, 'request', object)
}
