import { brand, headers } from '../../brand.ts'
import { boundedBytes, foreignAnswer, foreignJson } from '../../protocol/json/foreign-json.ts'
import { secondMs } from '../../time.ts'
import type { Connection } from './credentials.ts'
import { CliFailure, GatewayRefusal, type Refusal } from './failure.ts'

/** Longer than any administrative answer takes. A gateway that is silent for longer counts as unreachable. */
const answerWithinMs = 30_000
/** Far more than the longest list of the administration. */
const answerBytesMax = 64 * 1024 * 1024
/** More than a checkpoint or a tile of the log has. */
const bytesMax = 1024 * 1024
const waitsMax = 10
const notOurs = 'What answers there is not Penstock.'
export const checkAddress = 'Check SVC_BASE_URL, or base_url in the credentials file.'
const reasonHeader = `x-${brand}-reason`

export interface AdminCall {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  /** Begins with `/`. Insert ids with `segment`. */
  readonly path: string
  readonly body?: object
  /** If a route has no body, the reason travels in a header (§16). */
  readonly reason?: string | undefined
  /** Whether the gateway may require a second admin (§16). Then the call also carries that admin's token. */
  readonly approved?: boolean
  /** The ETag of the row that is changed, as it was read; null: there was none. Absent: of a gateway that names none. */
  readonly seen?: string | null | undefined
  /** How long the answer may take where it is work on a network, ms. */
  readonly withinMs?: number
}

/** An id as one part of a path. */
export const segment = (id: string) => encodeURIComponent(id)

type Fields = Readonly<Record<string, unknown>>
const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : null)
const number = (value: unknown) => (typeof value === 'number' ? value : null)

/** Reads both error formats: problem details, and the one of OpenAI's SDKs. */
export function refusalOf(status: number, body: unknown, answered: Headers): Refusal {
  const problem = fieldsOf(body)
  const error = fieldsOf(problem.error)
  const service = fieldsOf(error[brand])
  const retryAfter = Number(answered.get('retry-after') ?? Number.NaN)
  return {
    status,
    code: text(problem.code) ?? text(error.code),
    title: text(problem.title) ?? text(error.message) ?? `The gateway answered with HTTP ${status}`,
    detail: text(problem.detail) ?? (text(error.param) === null ? null : `Parameter: ${text(error.param)}`),
    requestId: text(problem.request_id) ?? text(service.request_id) ?? answered.get(headers.requestId),
    retryAfterSeconds: number(service.retry_after_seconds) ?? (Number.isInteger(retryAfter) ? retryAfter : null),
  }
}

async function refused(response: Response, hints: (refusal: Refusal) => readonly string[]): Promise<GatewayRefusal> {
  const content = await response.text().catch(() => '')
  // A proxy in between answers in its own format. Its page is not shown in the terminal.
  const refusal = refusalOf(response.status, foreignJson(content), response.headers)
  return new GatewayRefusal(refusal, [...(refusal.code === null ? [notOurs, checkAddress] : []), ...hints(refusal)])
}

/** The HTTP interface, as a customer and an operator see it. Rejects with `CliFailure` only. */
export class GatewayClient {
  constructor(readonly connection: Connection) {}

  /** Calls an administrative route. Resolves with null for 204. */
  async admin<T>(call: AdminCall): Promise<T> {
    const { adminToken } = this.connection
    if (adminToken === null) throw this.missing('SVC_ADMIN_TOKEN', 'an admin token')
    const response = await this.fetch(call.path, {
      method: call.method ?? 'GET',
      headers: {
        [headers.adminToken]: adminToken,
        ...jsonType(call.body),
        ...reasonLine(call),
        ...seenLine(call),
        ...this.approverLine(call),
      },
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      signal: AbortSignal.timeout(call.withinMs ?? answerWithinMs),
    })
    if (!response.ok) throw await refused(response, (refusal) => this.adminHints(refusal, call))
    return (response.status === 204 ? null : await this.json(response)) as T
  }

  /** Calls a route that needs no token, with the customer's key if there is one. */
  async get<T>(path: string, withKey: boolean): Promise<{ readonly status: number; readonly body: T }> {
    const { gatewayKey } = this.connection
    const authorization = withKey && gatewayKey !== null ? { authorization: `Bearer ${gatewayKey}` } : {}
    const response = await this.fetch(path, { headers: authorization, signal: AbortSignal.timeout(answerWithinMs) })
    // The health routes answer 503 with their own body.
    if (!response.ok && response.status !== 503)
      throw await refused(response, () => this.hints(response.status, 'SVC_GATEWAY_KEY'))
    return { status: response.status, body: (await this.json(response)) as T }
  }

  /** The bytes of a public route. Waits, ten times at most, where it answers that too much was asked of it. */
  async bytes(path: string): Promise<Uint8Array> {
    for (let waits = 0; ; waits++) {
      const response = await this.fetch(path, { signal: AbortSignal.timeout(answerWithinMs) })
      const body = response.ok ? await boundedBytes(response, bytesMax) : null
      if (body !== null) return body
      if (response.ok) throw new CliFailure(`${this.connection.baseUrl}: ${notOurs}`, [checkAddress])
      const failure = await refused(response, () => [])
      const { status, retryAfterSeconds } = failure.refusal
      if (status !== 429 || waits >= waitsMax) throw failure
      await Bun.sleep((retryAfterSeconds ?? 1) * secondMs)
    }
  }

  /** A customer's own route. */
  async customer<T>(path: string): Promise<T> {
    const { customerId, customerToken } = this.connection
    if (customerId === null || customerToken === null) throw this.missing('SVC_CUSTOMER_TOKEN', "a customer's token")
    const response = await this.fetch(path, {
      headers: { [headers.customerId]: customerId, [headers.customerToken]: customerToken },
      signal: AbortSignal.timeout(answerWithinMs),
    })
    if (!response.ok) throw await refused(response, () => this.hints(response.status, 'SVC_CUSTOMER_TOKEN'))
    return (await this.json(response)) as T
  }

  /** Resolves with the answer of a chat request once its status is known. */
  async chat(body: object, signal: AbortSignal): Promise<Response> {
    const { gatewayKey } = this.connection
    if (gatewayKey === null) throw this.missing('SVC_GATEWAY_KEY', 'a gateway key')
    const response = await this.fetch(`/v1/api/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gatewayKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    })
    if (response.ok) return response
    const hints = response.status === 404 ? ['This command shows the models: ./penstock models list'] : []
    throw await refused(response, () => [...hints, ...this.hints(response.status, 'SVC_GATEWAY_KEY')])
  }

  private async fetch(path: string, init: RequestInit): Promise<Response> {
    const { baseUrl } = this.connection
    try {
      return await fetch(baseUrl + path, { ...init, redirect: 'error' })
    } catch (error) {
      if (init.signal?.aborted === true && init.signal.reason?.name !== 'TimeoutError') throw error
      throw unreachable(baseUrl, error)
    }
  }

  private async json(response: Response): Promise<unknown> {
    const answer = await foreignAnswer(response, answerBytesMax).catch(() => undefined)
    if (answer !== undefined) return answer
    throw new CliFailure(`${this.connection.baseUrl}: ${notOurs}`, [checkAddress])
  }

  private missing(variable: string, what: string): CliFailure {
    const { baseUrl, lookedAt } = this.connection
    return new CliFailure(`This command needs ${what} for ${baseUrl}.`, [
      `Set ${variable}, or keep it in one of: ${lookedAt.join(', ') || 'the credentials file of that gateway'}`,
    ])
  }

  /** The second token is sent only with calls that may need it. */
  private approverLine({ approved }: AdminCall): Record<string, string> {
    const { approverToken } = this.connection
    return approved === true && approverToken !== null ? { [headers.approverToken]: approverToken } : {}
  }

  private adminHints({ status, code }: Refusal, { approved }: AdminCall): readonly string[] {
    if (code === 'precondition_failed') return ['Nothing was changed. Look at what it is now, and repeat the command.']
    if (approved !== true) return this.hints(status, 'SVC_ADMIN_TOKEN')
    // The first token was sent, so the second one is missing.
    if (code === 'missing_credentials') return ["Set SVC_APPROVER_TOKEN to the second admin's own token."]
    const { approverToken } = this.connection
    return this.hints(status, approverToken === null ? 'SVC_ADMIN_TOKEN' : 'SVC_ADMIN_TOKEN or SVC_APPROVER_TOKEN')
  }

  private hints(status: number, variable: string): readonly string[] {
    return status === 401
      ? [`Is ${variable}, or the credentials file, of the gateway at ${this.connection.baseUrl}?`]
      : []
  }
}

function jsonType(body: object | undefined): Record<string, string> {
  return body === undefined ? {} : { 'content-type': 'application/json' }
}

function reasonLine({ body, reason }: AdminCall): Record<string, string> {
  if (reason === undefined || body !== undefined) return {}
  if (!/^[\x20-\x7e]*$/.test(reason)) {
    throw new CliFailure('--reason may only have ASCII characters here, because it travels in a header.')
  }
  return { [reasonHeader]: reason }
}

/** Refused where somebody has changed the row since. */
function seenLine({ seen }: AdminCall): Record<string, string> {
  if (seen === undefined) return {}
  return seen === null ? { 'if-none-match': '*' } : { 'if-match': seen }
}

export function unreachable(baseUrl: string, error: unknown): CliFailure {
  const { code, name } = error as { code?: unknown; name?: unknown }
  const why =
    code === 'ConnectionRefused' || code === 'ECONNREFUSED'
      ? 'nothing listens there'
      : name === 'TimeoutError'
        ? `no answer within ${answerWithinMs / 1_000} s`
        : code === 'EPROTO' && baseUrl.startsWith('https:')
          ? 'the TLS handshake failed. It speaks http'
          : typeof code === 'string'
            ? code
            : 'the connection failed'
  return new CliFailure(`The gateway at ${baseUrl} cannot be reached: ${why}.`, [
    'Start one with: npm start. Another address: SVC_BASE_URL.',
  ])
}
