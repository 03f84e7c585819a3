import type { InferenceRequest, Operation } from '../../actors/operations/operation.ts'
import { responses } from '../../actors/operations/responses.ts'
import { Problem } from '../../errors.ts'
import { boundedBytes } from '../../protocol/json/foreign-json.ts'
import { doorHeaders, errorOf, failureOf } from './refusals.ts'

const answerBytesMax = 64 * 1024 * 1024
const passedHeaders = ['content-type', 'retry-after', 'x-request-id', 'request-id', 'x-should-retry'] as const

/**
 * An answer as its client may take it for whole: what is no stream is opened to its end before its status goes out, and a stream that
 * breaks ends with an error in the dialect. Rejects as `sealedFetch` and its answers do.
 */
export async function clientAnswer(response: Response, operation: Operation, sent: string): Promise<Response> {
  const headers = new Headers(doorHeaders)
  for (const name of passedHeaders) {
    const value = response.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  const { status, body } = response
  const isStream = response.ok && (headers.get('content-type') ?? '').startsWith('text/event-stream')
  if (body !== null && isStream) {
    return new Response(
      endingAloud(body, (error) => lastEvent(operation, sent, error)),
      { status, headers },
    )
  }
  const bytes = await boundedBytes(response, answerBytesMax)
  if (bytes === null) throw new Problem('upstream_error')
  return new Response(bytes as Uint8Array<ArrayBuffer>, { status, headers })
}

/** What the operation's own stream says when it fails. A stream of Responses would begin anew, and has an event for errors instead. */
function lastEvent(operation: Operation, sent: string, error: unknown): string {
  if (operation.path === responses.path) {
    const { code, message } = failureOf(error)
    return `event: error\ndata: ${JSON.stringify({ type: 'error', code, message, param: null })}\n\n`
  }
  const body = operation.read(sent) as InferenceRequest
  const identity = { id: 'sealed', created: Math.floor(Date.now() / 1_000), model: String(body.model) }
  return operation.writer?.(identity, body, false).failure(errorOf(failureOf(error))) ?? ''
}

/** The same bytes, and `last` of what they break with. Ends with the error itself where that cannot be told. */
function endingAloud(body: ReadableStream<Uint8Array>, last: (error: unknown) => string): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>({
    async pull(out) {
      try {
        const { done, value } = await reader.read()
        if (done) out.close()
        else out.enqueue(value)
      } catch (error) {
        out.enqueue(new TextEncoder().encode(last(error)))
        out.close()
      }
    },
    cancel: (reason) => reader.cancel(reason),
  })
}
