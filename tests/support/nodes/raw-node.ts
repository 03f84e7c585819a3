export interface RawAnswer {
  readonly type: string
  /** Each is a chunk that the other side reads by itself. */
  readonly pieces: readonly string[]
}

/** Long enough that the gateway has read one piece before the next is written, ms. */
const betweenMs = 20

/** A model server whose answers come in pieces. */
export function rawNode(model: string) {
  let answer: RawAnswer = { type: 'text/plain', pieces: ['ok'] }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      if (request.method === 'GET') return models(model, request)
      await request.arrayBuffer()
      return new Response(inPieces(answer.pieces), { headers: { 'content-type': answer.type } })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    says: (next: RawAnswer) => {
      answer = next
    },
    stop: () => void server.stop(true),
  }
}

function models(model: string, { url }: Request): Response {
  if (new URL(url).pathname !== '/v1/models') return new Response(null, { status: 404 })
  return Response.json({ object: 'list', data: [{ id: model, object: 'model', created: 1 }] })
}

function inPieces(pieces: readonly string[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start: async (controller) => {
      for (const piece of pieces) {
        controller.enqueue(Buffer.from(piece))
        await Bun.sleep(betweenMs)
      }
      controller.close()
    },
  })
}
