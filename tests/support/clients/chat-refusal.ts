import { expect } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { OpenAiErrorBody } from '../../../src/protocol/wire/admin/report.ts'

/** `type` by status as §2 lists it, written out so that the product cannot move both sides. */
const typeByStatus: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'invalid_request_error',
  405: 'invalid_request_error',
  413: 'invalid_request_error',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'server_error',
  502: 'server_error',
  503: 'service_unavailable_error',
  504: 'server_error',
}

export interface Refusal {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string
  readonly svc: {
    readonly request_id: string
    readonly status: number
    readonly retryable: boolean
    readonly retry_after_seconds: number | null
    readonly help_url: string
  }
}

export interface ExpectedRefusal {
  readonly status: number
  readonly code: string
  /** undefined: not looked at. */
  readonly param?: string | null
  /** `x-should-retry` of §3. */
  readonly retry: boolean
  readonly type?: string
}

/** Everything §§1–3 say of any refusal on the chat endpoint, and that `secret` is nowhere in it. */
export async function expectRefusal(
  response: Response,
  expected: ExpectedRefusal,
  secret: string,
): Promise<Refusal & { readonly headers: Headers }> {
  const text = await response.text()
  expect(text).not.toContain(secret)
  expect(JSON.stringify([...response.headers])).not.toContain(secret)
  const body = JSON.parse(text) as { readonly error: Refusal }
  const { error } = body
  const { status, code, retry } = expected
  expect([response.status, error?.code]).toEqual([status, code])
  expect([...Value.Errors(OpenAiErrorBody, body)]).toEqual([])
  expect(Object.keys(body)).toEqual(['error'])
  if (expected.param !== undefined) expect([code, error.param]).toEqual([code, expected.param])
  expect(error.type).toBe(expected.type ?? typeByStatus[status] ?? '')
  expect(error.message.length).toBeGreaterThan(5)
  expect(error.svc.help_url).toMatch(new RegExp(`^http[^#]+/docs/errors#${code}$`))
  const retryAfter = response.headers.get('retry-after')
  expect(error.svc).toEqual({
    request_id: response.headers.get('x-request-id') ?? '',
    status,
    retryable: retry,
    retry_after_seconds: retryAfter === null ? null : Number(retryAfter),
    help_url: error.svc.help_url,
  })
  expect(error.svc.request_id).toMatch(/^req_[0-9A-HJKMNP-TV-Z]{26}$/)
  expect(response.headers.get('x-should-retry')).toBe(String(retry))
  expect(response.headers.get('content-type')).toStartWith('application/json')
  expect(response.headers.get('cache-control')).toBe('no-store')
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  expect(response.headers.get('www-authenticate')).toBe(status === 401 ? 'Bearer realm="svc"' : null)
  if ((status === 429 || status === 503) && retry) expect(retryAfter).toMatch(/^[1-9][0-9]*$/)
  if (retryAfter !== null && retry) expect(Number(retryAfter)).toBeLessThanOrEqual(120)
  return { ...error, headers: response.headers }
}
