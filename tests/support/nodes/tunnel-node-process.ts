import { startTunnel } from '../../../src/node/tunnel/tunnel-client.ts'
import { nodeId } from './tunnel-pair.ts'

/**
 * A node in a process of its own: `bun tunnel-node-process.ts <tunnel url>`. `/flow?chunks=N&everyMs=M`: events at a
 * steady pace. `/flood`: as much as the reader takes. `/flooded`: how many bytes the flood was asked for so far.
 */
const [, , url = ''] = process.argv
const encoder = new TextEncoder()
const floodChunk = new Uint8Array(8 * 1024).fill(120)
let flooded = 0

function flow(chunks: number, everyMs: number): Response {
  let sent = 0
  const stream = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      await Bun.sleep(everyMs)
      if (sent === chunks) return controller.close()
      controller.enqueue(encoder.encode(`data: {"n":${sent++}}\n\n`))
    },
  })
  return new Response(stream)
}

function flood(): Response {
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        flooded += floodChunk.length
        controller.enqueue(floodChunk)
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(stream)
}

startTunnel({
  url,
  nodeId,
  sign: () => 'unproved',
  routerKid: () => 'none',
  log: () => {},
  handle: async (request) => {
    const { pathname, searchParams } = new URL(request.url)
    await request.arrayBuffer()
    if (pathname === '/flood') return flood()
    if (pathname === '/flooded') return new Response(String(flooded))
    if (pathname === '/flow') return flow(Number(searchParams.get('chunks')), Number(searchParams.get('everyMs')))
    return new Response(searchParams.get('answer') ?? 'ok')
  },
})
