import { Elysia } from 'elysia'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { newId } from '../../ids.ts'
import type { ConnectionClock } from '../../listener/connection-clock.ts'
import { checkBody, invalidRequest, readJsonText } from '../../protocol/json/json-body.ts'
import { problemResponse } from '../../protocol/json/problem-response.ts'
import {
  RerankRequest,
  rerankBodyBytesMax,
  rerankByteFaults,
  rerankRoute,
} from '../../protocol/wire/inference/rerank.ts'
import type { LocalCredentials } from '../access/local-credentials.ts'
import { forPrograms, withCredentialKind } from '../access/needed-credentials.ts'
import { agentProblems, baseHeaders, clientClosedStatus } from './answers.ts'
import type { Reranker } from './rerank.ts'

export interface RerankParts {
  readonly credentials: LocalCredentials
  readonly reranker: Reranker
  readonly connections: ConnectionClock
  /**
   * Called for every request when its answer is known, for the log. `failure`: a thrown error that is not a refusal.
   */
  readonly onEnd?: (end: RerankEnd, request: Request) => void
}

export interface RerankEnd {
  readonly requestId: string
  readonly status: number
  readonly code: string | null
  readonly latencyMs: number
  readonly failure: unknown
}

function checked(text: string): RerankRequest {
  const value = checkBody(text, RerankRequest)
  const faults = rerankByteFaults(value)
  if (faults.length > 0) throw invalidRequest(faults)
  return value
}

/** Checks the caller before the request, as far as the check does not need the body. */
async function answer({ credentials, reranker, connections }: RerankParts, request: Request): Promise<object> {
  const caller = credentials.begin(request)
  const text = await connections.body(request, readJsonText(request, rerankBodyBytesMax))
  caller.withBody(text)
  const body = checked(text)
  await caller.forModel(body.model, request.signal)
  // A ranking of many documents may take longer than a connection may be silent.
  return connections.lifted(request, () => reranker.rank(body, request.signal))
}

function refusal(error: unknown, request: Request, requestId: string): { response: Response; code: string | null } {
  if (request.signal.aborted) return { response: new Response(null, { status: clientClosedStatus }), code: null }
  const found = error instanceof Problem ? error : new Problem('internal_error')
  const problem = withCredentialKind(found, request.headers, forPrograms)
  const response = problemResponse(problem, requestId, baseHeaders, agentProblems)
  return { response, code: problem.code }
}

/** `POST /v1/rerank` (endpoint 1), complete in itself: its errors need no handler of the application around it. */
export const rerankRoutes = (parts: RerankParts) =>
  new Elysia({ name: 'rerank' }).post(
    rerankRoute,
    async ({ request }) => {
      const requestId = newId('req')
      const beganMs = performance.now()
      const end = (status: number, code: string | null, failure: unknown) =>
        parts.onEnd?.({ requestId, status, code, latencyMs: performance.now() - beganMs, failure }, request)
      try {
        const body = await answer(parts, request)
        end(200, null, null)
        return Response.json(body, { headers: { ...baseHeaders, [headers.requestId]: requestId } })
      } catch (error) {
        const { response, code } = refusal(error, request, requestId)
        end(response.status, code, error instanceof Problem ? (error.cause ?? null) : error)
        return response
      }
    },
    { parse: 'none' },
  )
