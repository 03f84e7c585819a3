import { SealedError } from '../../client/sealed/sealed-fetch.ts'
import { Problem } from '../../errors.ts'
import { anthropicErrorType, openAiTypeOf } from '../../protocol/json/error-envelopes.ts'
import { type Envelope, envelopeResponse } from '../../protocol/json/problem-response.ts'

/** On every answer of the door. */
export const doorHeaders = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const

/** Faults that a status says better than 502 or the gateway's own. */
const statuses: Partial<Record<SealedError['fault'], number>> = { no_node: 503, not_sealable: 400, no_key_in_use: 503 }

/** The gateway gives no answer at all. */
export class GatewayUnreachable extends Error {
  override readonly name = 'GatewayUnreachable'
}

/** A failure as the door tells it. */
export interface ReportedFailure {
  readonly code: string
  readonly message: string
  readonly status: number
}

/** As the last event of a stream tells it, in the form of OpenAI's envelope that writers of every dialect read. */
export const errorOf = ({ code, message, status }: ReportedFailure): object => ({
  ...{ message, type: openAiTypeOf(status), param: null, code },
  svc: { code, status },
})

/** A failure in the form that the client of this dialect shows. Throws defects on. */
export function refusalOf(error: unknown, envelope: Envelope): Response {
  if (error instanceof Problem) return envelopeResponse(envelope, error, 'local', doorHeaders, null)
  const failure = failureOf(error)
  const { message, code, status } = failure
  const bodies = {
    openai: { error: errorOf(failure) },
    anthropic: { type: 'error', error: { type: anthropicErrorType(status), message, svc: { code } } },
    ollama: { error: message, svc: { code } },
  }
  return Response.json(bodies[envelope], { status, headers: doorHeaders })
}

export function failureOf(error: unknown): ReportedFailure {
  if (error instanceof SealedError) {
    const { fault, message, refusal, status } = error
    // Only a refusal's status says what is wrong. A gateway that answers 200 with something else has failed.
    const ofGateway = status !== null && status >= 400 ? status : 502
    return { message, code: refusal?.code ?? fault, status: statuses[fault] ?? ofGateway }
  }
  if (error instanceof Problem) return error
  if (!(error instanceof GatewayUnreachable)) throw error
  return { message: 'The gateway cannot be reached from this computer.', code: 'gateway_unreachable', status: 502 }
}
