import { newId } from '../ids.ts'
import { failureName, type Log } from '../log.ts'
import { nodeStatusPath } from '../protocol/wire/nodes/agent.ts'

export interface EndedRequest {
  readonly requestId: string
  readonly route: string
  readonly status: number
  readonly code: string | null
  readonly latencyMs: number
  /** Called if the request was refused: whether its credentials belong to no known caller (§18). */
  readonly stranger: () => boolean
}

/** 503: no capacity, or the gateway that could identify the caller is unreachable. */
const isRefusal = ({ status, code }: EndedRequest) => code !== null && (status < 500 || status === 503)

/** One log line for each request, without anything that a caller made up; refused strangers are counted. */
export function logEnd(log: Log, ended: EndedRequest): void {
  const { requestId: request_id, route, status, code } = ended
  const object = JSON.stringify({ request_id, route, status, code, latency_ms: Math.round(ended.latencyMs) })
  if (isRefusal(ended) && ended.stranger()) log.counted(String(code), 'info', 'request', object)
  else log.written('info', 'request', object)
}

/** A request until its answer is known. Polls of the gateway are logged only if they fail. */
export class RequestLine {
  readonly requestId = newId('req')
  private readonly beganMs = performance.now()

  constructor(
    private readonly log: Log,
    private readonly route: string,
    private readonly stranger: () => boolean,
  ) {}

  /** `failure`: a thrown error that is not a refusal. */
  end(status: number, code: string | null, failure: unknown = null): void {
    const { log, route, requestId, stranger } = this
    const latencyMs = performance.now() - this.beganMs
    if (route !== nodeStatusPath || code !== null) logEnd(log, { requestId, route, status, code, latencyMs, stranger })
    if (failure !== null) log.error('unhandled', { request_id: requestId, route, failure: failureName(failure) })
  }
}
