import { Problem, type ProblemCode } from '../../errors.ts'
import type { RequestId } from '../../ids.ts'
import { openAiError } from '../json/error-envelopes.ts'

const messages: Partial<Record<ProblemCode, string>> = {
  node_lost: 'The node stopped responding.',
  upstream_error: 'The node failed while it was answering.',
  stream_idle_timeout: 'The node stopped sending.',
  upstream_timeout: 'The answer took too long.',
  server_shutdown: 'The gateway is shutting down.',
}

/** `error` of the event that ends a stream which has begun (§6). */
export function streamError(problem: Problem, requestId: RequestId, help: string): object {
  const text = messages[problem.code]
  const shown = text === undefined ? problem : new Problem(problem.code, { ...problem.options, detail: text })
  return (openAiError(shown, requestId, help) as { readonly error: object }).error
}
