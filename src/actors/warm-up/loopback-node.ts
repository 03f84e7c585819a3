import { eventStreamHeaders } from '../../protocol/chat/sse.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'

export interface LoopbackNode {
  readonly url: string
  stop(): Promise<void>
}

/** As a model server sends them: the text comes in several writes, with more than one chunk in each. */
const writes = 3
const chunksPerWrite = 4
const usage = {
  prompt_tokens: 8,
  completion_tokens: writes * chunksPerWrite,
  total_tokens: 8 + writes * chunksPerWrite,
}
const known = { id: 'chatcmpl-warm', created: 0 }

const line = (model: string, choices: readonly object[], extra: object = {}) =>
  `data: ${JSON.stringify({ ...known, object: 'chat.completion.chunk', model, choices, ...extra })}\n\n`
const piece = (model: string, delta: object, finishReason: string | null) =>
  line(model, [{ index: 0, delta, finish_reason: finishReason }])

/** A model server that says the same to every chat, and nothing to a caller who does not send `secret`. */
export function startLoopbackNode(model: string, secret: string): LoopbackNode {
  const message = { role: 'assistant', content: 'warm '.repeat(writes * chunksPerWrite) }
  const whole = JSON.stringify({
    ...known,
    object: 'chat.completion',
    model,
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage,
  })
  const text = piece(model, { content: 'warm ' }, null).repeat(chunksPerWrite)
  const end = `${piece(model, {}, 'stop')}${line(model, [], { usage })}data: [DONE]\n\n`
  const stream = async function* () {
    yield piece(model, { role: 'assistant', content: '' }, null)
    for (let written = 0; written < writes; written++) {
      await Bun.sleep(0)
      yield text
    }
    yield end
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    development: false,
    fetch: async (request) => {
      if (request.headers.get('authorization') !== `Bearer ${secret}`) return new Response(null, { status: 404 })
      const body = foreignJson(await request.text()) as { readonly stream?: unknown } | undefined
      return body?.stream === true
        ? new Response(stream as unknown as BodyInit, { headers: eventStreamHeaders })
        : new Response(whole, { headers: { 'content-type': 'application/json' } })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}
