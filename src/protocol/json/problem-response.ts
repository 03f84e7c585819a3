import { brand, headers, requestUrnPrefix } from '../../brand.ts'
import { helpUrl, Problem, problemKind, problemType, quoteValue } from '../../errors.ts'
import type { Config } from '../../settings/config.ts'
import { anthropicError, ollamaError, openAiError } from './error-envelopes.ts'

type HeaderMap = Readonly<Record<string, string>>

/** The retry time of refusals that have none, seconds. */
const retryAfterSecondsDefault = 5
/** The SDKs refuse to wait longer (§2). Only a daily quota names its real time. */
const retryAfterSecondsMax = 120
const hstsSeconds = 31_536_000

/** Headers of every response, chat included. */
export function baseHeaders(config: Pick<Config, 'SVC_PUBLIC_URL'>): HeaderMap {
  const secure = config.SVC_PUBLIC_URL?.startsWith('https:') === true
  return {
    'x-content-type-options': 'nosniff',
    ...(secure ? { 'strict-transport-security': `max-age=${hstsSeconds}` } : {}),
  }
}

function retryAfter({ code, status, options }: Problem): number | undefined {
  const { retryAfterSeconds } = options
  if (code === 'daily_token_quota_exceeded') return retryAfterSeconds
  if (retryAfterSeconds !== undefined) return Math.min(Math.max(1, Math.ceil(retryAfterSeconds)), retryAfterSecondsMax)
  return (status === 429 || status === 503) && problemKind(code).shouldRetry === true
    ? retryAfterSecondsDefault
    : undefined
}

/** Adds the retry time to the refusal, so that header and body agree. */
function withRetryAfter(problem: Problem): Problem {
  const seconds = retryAfter(problem)
  if (seconds === undefined || seconds === problem.options.retryAfterSeconds) return problem
  return new Problem(problem.code, { ...problem.options, retryAfterSeconds: seconds })
}

function problemHeaders(problem: Problem, requestId: string, challenge: string): Record<string, string> {
  const { options, status } = problem
  return {
    'cache-control': 'no-store',
    [headers.requestId]: requestId,
    ...(status === 401 ? { 'www-authenticate': challenge } : {}),
    ...(options.retryAfterSeconds === undefined ? {} : { 'retry-after': String(options.retryAfterSeconds) }),
    ...options.headers,
  }
}

export const bearerChallenge = `Bearer realm="${brand}"`
export const adminChallenge = `${brand.toUpperCase()}-Admin-Token realm="${brand}"`

/** Whose shape the error of an inference route has. */
export type Envelope = keyof typeof envelopes

const envelopes = {
  /** Both OpenAI SDKs unwrap `error` (§2). */
  openai: openAiError,
  anthropic: anthropicError,
  ollama: ollamaError,
} as const

const helpOf = ({ code }: Problem, base: string | null) => (base === null ? null : helpUrl(base, code))

/** Anthropic's SDKs look for the id of a request under this name. */
export const anthropicRequestId = 'request-id'

/** Inference and model lists: in the shape that the client's SDK unwraps. `helpBase`: the gateway whose pages explain the codes. */
export function envelopeResponse(
  envelope: Envelope,
  given: Problem,
  requestId: string,
  base: HeaderMap,
  helpBase: string | null,
): Response {
  const problem = withRetryAfter(given)
  const { shouldRetry } = problemKind(problem.code)
  return Response.json(envelopes[envelope](problem, requestId, helpOf(problem, helpBase)), {
    status: problem.status,
    headers: {
      ...base,
      ...problemHeaders(problem, requestId, bearerChallenge),
      ...(shouldRetry === undefined ? {} : { [headers.shouldRetry]: String(shouldRetry) }),
      ...(envelope === 'anthropic' ? { [anthropicRequestId]: requestId } : {}),
    },
  })
}

interface BodyPlace {
  /** Before the code in `type`; null: the usual one. */
  readonly typeBase: string | null
  /** The gateway whose pages explain the codes; null: there are none. */
  readonly helpBase: string | null
}

/** The body of every other route: RFC 9457 with the extension members of §2. */
export function problemBody(problem: Problem, requestId: string, { typeBase, helpBase }: BodyPlace): object {
  const { code, options, status, message } = problem
  const kind = problemKind(code)
  const help = helpOf(problem, helpBase)
  return {
    type: problemType(code, typeBase),
    title: kind.title,
    status,
    detail: message,
    instance: requestUrnPrefix + requestId,
    code,
    request_id: requestId,
    retryable: kind.shouldRetry ?? false,
    ...(help === null ? {} : { help_url: help }),
    ...(options.errors === undefined ? {} : { errors: options.errors.map(cleanFault) }),
  }
}

/** Every other route. */
export function problemResponse(
  given: Problem,
  requestId: string,
  base: HeaderMap,
  place: { readonly typeBase: string | null; readonly challenge: string; readonly helpBase: string | null },
): Response {
  const problem = withRetryAfter(given)
  return new Response(JSON.stringify(problemBody(problem, requestId, place)), {
    status: problem.status,
    headers: {
      ...base,
      'content-type': 'application/problem+json',
      ...problemHeaders(problem, requestId, place.challenge),
    },
  })
}

type Fault = NonNullable<Problem['options']['errors']>[number]

/** A pointer may contain a caller's own key, so it is cleaned. */
function cleanFault(fault: Fault): Fault {
  return fault.pointer === undefined ? fault : { ...fault, pointer: quoteValue(fault.pointer) }
}
