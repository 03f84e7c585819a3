import { SealedError } from '../../client/sealed/sealed-fetch.ts'
import { Problem } from '../../errors.ts'
import { type Envelope, envelopeResponse } from '../../protocol/json/problem-response.ts'

/** On every answer of the door. */
export const doorHeaders = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const

/** What another status than 502 says better. */
const statuses: Partial<Record<SealedError['fault'], number>> = { no_node: 503, not_sealable: 400, no_key_in_use: 503 }

/** A failure in the form that the client of this dialect shows. Defects are thrown on. */
export function refusalOf(error: unknown, envelope: Envelope): Response {
  if (error instanceof Problem) return envelopeResponse(envelope, error, 'local', doorHeaders, null)
  const { message, code, status } = told(error)
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  const bodies = {
    openai: { error: { message, type, param: null, code } },
    anthropic: { type: 'error', error: { type: 'api_error', message } },
    ollama: { error: message },
  }
  return Response.json(bodies[envelope], { status, headers: doorHeaders })
}

function told(error: unknown): { readonly message: string; readonly code: string; readonly status: number } {
  if (error instanceof SealedError) {
    const { fault, message, refusal } = error
    return { message, code: refusal?.code ?? fault, status: statuses[fault] ?? error.status ?? 502 }
  }
  // What `fetch` throws names the address of the gateway, which the person at this computer knows.
  return { message: 'The gateway cannot be reached from this computer.', code: 'gateway_unreachable', status: 502 }
}
