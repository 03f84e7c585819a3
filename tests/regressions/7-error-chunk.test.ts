import { expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { streamText } from 'ai'
import { ChunkRewriter } from '../../src/protocol/chat/chunk-rewriter.ts'

/**
 * Symptom: a stream that broke in the middle ended for users of `@ai-sdk/openai` as if the answer were whole.
 * Cause: that client matches an event against the type of a chunk first and drops the keys it does not know, so the
 * error beside `choices` was lost.
 * Fix: the error chunk has a `usage` of the wrong type, and so is no chunk for such a client (docs/decisions/0005).
 */
test('§6: the error chunk is an error for a client that looks for chunks first', async () => {
  const rewriter = new ChunkRewriter({ id: 'chatcmpl-1', created: 1, model: 'm' })
  const first = rewriter.chunk([{ index: 0, delta: { role: 'assistant', content: 'so far' }, finish_reason: null }])
  const broken = rewriter.failure({ message: 'The node stopped responding.', type: 'server_error', code: 'node_lost' })
  const server = Bun.serve({
    port: 0,
    fetch: () => new Response(first + broken, { headers: { 'content-type': 'text/event-stream' } }),
  })
  try {
    const model = createOpenAI({ apiKey: 'x', baseURL: `http://127.0.0.1:${server.port}` }).chat('m')
    const errors: unknown[] = []
    const result = streamText({ model, prompt: 'hi', maxRetries: 0, onError: ({ error }) => void errors.push(error) })
    await result.consumeStream()
    expect(errors).toHaveLength(1)
    expect(JSON.stringify(errors)).toContain('node_lost')
  } finally {
    await server.stop(true)
  }
})
