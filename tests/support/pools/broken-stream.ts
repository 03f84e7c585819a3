import { expect } from 'bun:test'
import { readStream } from '../clients/event-stream.ts'
import { nodeChunk, nodeUsage, type ScriptedCall } from '../nodes/scripted-node.ts'
import { leak } from './stream-pool.ts'

/** The end of a node's answer in one chunk. */
export const finished = nodeChunk({}, 'stop', { usage: nodeUsage })
export const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`
export const error = { message: leak, type: 'server_error', code: 500 }

export async function errorEvent(call: ScriptedCall): Promise<void> {
  call.open()
  await call.raw(event({ error }))
  call.end()
}

/** What a client sees of a failure after the first chunk: one error chunk, and the end without `[DONE]`. */
export async function expectBroken(response: Response, code: string, status: number, message: string, content: string) {
  expect(response.status).toBe(200)
  const stream = await readStream(response)
  expect(stream.text).not.toContain(leak)
  expect([stream.content, stream.done]).toEqual([content, false])
  const { id, object, created, model } = stream.chunks[0] ?? stream.last
  const type = status === 503 ? 'service_unavailable_error' : 'server_error'
  expect<unknown>(stream.last).toEqual({
    ...{ id, object, created, model },
    choices: [{ index: 0, delta: {}, finish_reason: 'error' }],
    // Stops clients that look for a chunk before they look for an error.
    usage: false,
    error: {
      message,
      type,
      param: null,
      code,
      svc: {
        request_id: response.headers.get('x-request-id') ?? '',
        status,
        retryable: true,
        retry_after_seconds: null,
        help_url: expect.stringMatching(new RegExp(`^http.+/docs/errors#${code}$`)),
      },
    },
  })
  expect(stream.chunks.slice(0, -1).every((chunk) => chunk.error === undefined)).toBe(true)
}

export const told = {
  lost: 'The node stopped responding.',
  failed: 'The node failed while it was answering.',
  idle: 'The node stopped sending.',
  late: 'The answer took too long.',
}
