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
  /** Of inference: the public id of a model that was found, and the node that was called last. */
  readonly model?: string | null
  readonly nodeId?: string | null
  readonly tries?: number
  readonly ttftMs?: number | null
  readonly promptTokens?: number | null
  readonly completionTokens?: number | null
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

const count = (name: string, value: number | null | undefined) => (value == null ? '' : `,"${name}":${value}`)

/** What only a line of inference says. */
const inferenceMembers = ({ model, nodeId, tries, ttftMs, promptTokens, completionTokens }: RequestLine) =>
  `${member('model', model)}${member('node_id', nodeId)}${count('tries', tries)}${count('ttft_ms', ttftMs == null ? null : tenths(ttftMs))}${count('prompt_tokens', promptTokens)}${count('completion_tokens', completionTokens)}`

/** Written by hand: one for every request, and the general writer takes three times as long. */
export function logRequest(log: Log, line: RequestLine): void {
  const { requestId, route, method, status, code, latencyMs } = line
  log.written(
    status >= 500 ? 'warn' : 'info',
    'request',
    `,"request_id":"${requestId}","route":${jsonString(route)},"method":"${method}","status":${status},"code":${jsonStringOrNull(code)},"latency_ms":${tenths(latencyMs)}${member('key_id', line.keyId)}${member('role', line.role)}${member('ip', line.addressHash)}${member('client_request_id', line.clientRequestId)}${member('job_id', line.jobId)}${inferenceMembers(line)}`,
  )
}
