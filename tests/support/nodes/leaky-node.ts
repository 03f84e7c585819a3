import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import { contents, named } from '../leaks/leak-markers.ts'

/** How a node tells what it should not. Each echoes the request, its own address and its API key. */
export const leaks = [
  'status 400',
  'status 401',
  'status 404',
  'status 413',
  'status 422',
  'status 429',
  'status 500',
  'status 503',
  'redirect',
  'error under 200',
  'garbage',
  'error event',
  'error line',
  'malformed event',
] as const
export type Leak = (typeof leaks)[number]

export interface LeakyNode {
  /** Ends with a path that is to be kept secret. */
  readonly url: string
  /** Host and port. */
  readonly address: string
  leak(kind: Leak | null): void
  stop(): void
}

const leakyHeaders = {
  'x-node-secret': contents.nodeHeader,
  'set-cookie': `node=${contents.nodeHeader}`,
  server: contents.nodeHeader,
  via: contents.nodeHeader,
  'openai-organization': contents.nodeHeader,
}

/** In front of a fake node: behind a path, with headers of its own, and with errors that quote what they got. */
export function startLeakyNode(behind: FakeNode): LeakyNode {
  let leaking: Leak | null = null
  const prefix = `/${named.nodePath}`
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    // A fake node that cuts its connection.
    error: () => new Response(null, { status: 502 }),
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (!pathname.startsWith(prefix)) return new Response('no such path', { status: 404 })
      const body = request.method === 'POST' ? await request.text() : null
      if (leaking !== null && body !== null) return leak(leaking, body, request)
      const answer = await fetch(behind.url + pathname.slice(prefix.length), {
        method: request.method,
        signal: request.signal,
        headers: { 'content-type': 'application/json', authorization: request.headers.get('authorization') ?? '' },
        ...(body === null ? {} : { body }),
      })
      return new Response(quietly(answer.body), {
        status: answer.status,
        headers: { 'content-type': answer.headers.get('content-type') ?? '', ...leakyHeaders },
      })
    },
  })
  const address = `127.0.0.1:${server.port}`
  return {
    url: `http://${address}${prefix}`,
    address,
    leak: (kind) => {
      leaking = kind
    },
    stop: () => void server.stop(true),
  }
}

/** A body that is cut off ends here, too; Bun's server would print the failure. */
function quietly(body: ReadableStream<Uint8Array> | null): ReadableStream<Uint8Array> | null {
  if (body === null) return null
  const reader = body.getReader()
  return new ReadableStream({
    pull: async (controller) => {
      const part = await reader.read().catch(() => null)
      if (part === null || part.done) controller.close()
      else controller.enqueue(part.value)
    },
    cancel: () => reader.cancel(),
  })
}

function leak(kind: Leak, body: string, request: Request): Response {
  const told = `${contents.nodeError} at ${request.url} with ${request.headers.get('authorization')}: ${body}`
  const error = { message: told, type: told, param: told, code: contents.nodeError }
  const stream = { 'content-type': 'text/event-stream', ...leakyHeaders }
  if (kind.startsWith('status ')) {
    const status = Number(kind.slice('status '.length))
    return Response.json({ error }, { status, headers: { ...leakyHeaders, 'retry-after': '1' } })
  }
  switch (kind) {
    case 'redirect':
      return new Response(told, { status: 307, headers: { ...leakyHeaders, location: request.url } })
    case 'error under 200':
      return Response.json({ error, [contents.nodeKey]: told }, { headers: leakyHeaders })
    case 'error event':
      return new Response(`data: ${JSON.stringify({ error })}\n\n`, { headers: stream })
    case 'error line':
      return new Response(`error: ${JSON.stringify(error)}\n\n`, { headers: stream })
    case 'malformed event':
      return new Response(`data: {"choices":[${told}\n\n`, { headers: stream })
    default:
      return new Response(told, { headers: leakyHeaders })
  }
}
