/**
 * A node with one model, whose whole answers have so many megabytes, or a few words. Prints its URL. With `DECLARED=false` it does not
 * say beforehand how large an answer is, as servers that send in chunks.
 */
const model = process.env.MODEL ?? 'large'
const megabytes = Number(process.env.MEGABYTES ?? '15')
const declared = process.env.DECLARED !== 'false'
const pieceBytes = 64 * 1024

const answer = (content: string) =>
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 8, completion_tokens: 8, total_tokens: 16 },
  })
const text = answer(megabytes === 0 ? 'A few words.' : 'words of an answer. '.repeat((megabytes * 1_000_000) / 20))
const large = new TextEncoder().encode(text)
const json = { 'content-type': 'application/json' }

function inPieces(): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    pull: (controller) => {
      controller.enqueue(large.subarray(at, at + pieceBytes))
      at += pieceBytes
      if (at >= large.length) controller.close()
    },
  })
}

const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 255,
  async fetch(request) {
    if (request.method === 'GET' && new URL(request.url).pathname.endsWith('/v1/models')) {
      return Response.json({ object: 'list', data: [{ id: model }] })
    }
    if (request.method !== 'POST') return new Response('{}', { status: 404 })
    await request.arrayBuffer()
    return new Response(declared || megabytes === 0 ? large : inPieces(), { headers: json })
  },
})
console.log(server.url.href)
