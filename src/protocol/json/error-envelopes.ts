import { type Problem, type ProblemCode, problemKind } from '../../errors.ts'

/** `error.type` of the OpenAI-compatible envelope (§2). */
const openAiErrorType = (code: ProblemCode): string =>
  code === 'daily_token_quota_exceeded' ? 'insufficient_quota' : openAiTypeOf(problemKind(code).status)

/** The same by status alone. */
export function openAiTypeOf(status: number): string {
  switch (status) {
    case 401:
      return 'authentication_error'
    case 402:
      return 'billing_error'
    case 403:
      return 'permission_error'
    case 409:
    case 422:
      return 'idempotency_error'
    case 429:
      return 'rate_limit_error'
    case 500:
    case 502:
    case 504:
      return 'server_error'
    case 503:
      return 'service_unavailable_error'
    default:
      return 'invalid_request_error'
  }
}

/**
 * The body of every chat and model-list error. Both SDKs unwrap `error`, so our own metadata stands inside it. `help`: where
 * the code is explained; null: there is no such page.
 */
export function openAiError(problem: Problem, requestId: string, help: string | null): object {
  const { code, options } = problem
  const kind = problemKind(code)
  return {
    error: {
      message: problem.message,
      type: openAiErrorType(code),
      param: options.param ?? null,
      code,
      svc: {
        request_id: requestId,
        status: kind.status,
        retryable: kind.shouldRetry ?? false,
        retry_after_seconds: options.retryAfterSeconds ?? null,
        ...(help === null ? {} : { help_url: help }),
        ...options.metadata,
      },
    },
  }
}

/** `error.type` of Anthropic's envelope by status, as its SDKs and its documentation name them. */
const anthropicTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

export const anthropicErrorType = (status: number): string =>
  anthropicTypes[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')

/** By this its SDKs know that they must send the whole conversation each time, and their tool runner then does. */
const noThreads = { details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } }

/** The body of an error where Anthropic's interface is spoken: the same facts in its envelope. */
export function anthropicError(problem: Problem, requestId: string, help: string | null): object {
  const { error } = openAiError(problem, requestId, help) as { readonly error: { readonly svc: object } }
  const { code, status, options, message } = problem
  const svc = { code, param: options.param ?? null, ...error.svc }
  const more = code === 'responses_not_stored' ? noThreads : {}
  return { type: 'error', error: { type: anthropicErrorType(status), message, ...more, svc }, request_id: requestId }
}

/** The body of an error where Ollama's interface is spoken: its clients show the text of `error`. */
export function ollamaError(problem: Problem, requestId: string, help: string | null): object {
  const { error } = openAiError(problem, requestId, help) as { readonly error: { readonly svc: object } }
  const { code, options, message } = problem
  return { error: message, svc: { code, param: options.param ?? null, ...error.svc } }
}
