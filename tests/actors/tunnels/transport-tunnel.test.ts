import { afterEach, describe, expect, test } from 'bun:test'
import { windowBytes } from '../../../src/protocol/tunnel/tunnel-frames.ts'
import { openStreamsMax } from '../../../src/protocol/tunnel/tunnel-session.ts'
import { TransportError } from '../../../src/transport/transport.ts'
import { get, nextOpen, nodeId, post, type TunnelPair, tunnelPair } from '../../support/nodes/tunnel-pair.ts'
import { turn } from '../../support/run/turn.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const pairs: TunnelPair[] = []
afterEach(async () => {
  for (const pair of pairs.splice(0)) await pair.stop()
})

async function open(...args: Parameters<typeof tunnelPair>): Promise<TunnelPair> {
  const pair = await tunnelPair(...args)
  pairs.push(pair)
  return pair
}

async function failure(work: Promise<unknown>): Promise<TransportError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(TransportError)
  return error as TransportError
}

/** A chat-like answer: `count` events, each when `next` resolves. */
function events(count: number, next: (at: number) => Promise<unknown>, cancelled = () => {}): Response {
  const encoder = new TextEncoder()
  let at = 0
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        await next(at)
        if (at < count) controller.enqueue(encoder.encode(`data: {"n":${at++}}\n\n`))
        else controller.close()
      },
      cancel: cancelled,
    },
    { highWaterMark: 0 },
  )
  return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
}

describe('§22: a request over the tunnel', () => {
  test('method, path, query, headers and body arrive; so do status, headers and body of the answer', async () => {
    const seen: unknown[] = []
    const { transport } = await open(async (request) => {
      const { pathname, search } = new URL(request.url)
      seen.push([request.method, pathname + search, request.headers.get('x-a'), await request.text()])
      return new Response('no such thing', { status: 404, headers: { 'retry-after': '7' } })
    })
    const response = await transport.fetch('/v1/chat?x=1&y=%20', { ...post('{"a":"€"}'), headers: { 'X-A': 'b' } })
    expect([response.status, response.headers.get('Retry-After'), response.headers.get('etag')]).toEqual([
      404,
      '7',
      null,
    ])
    expect(await response.text(1_000)).toBe('no such thing')
    expect(seen).toEqual([['POST', '/v1/chat?x=1&y=%20', 'b', '{"a":"€"}']])
  })

  test('bodies of many windows, both ways', async () => {
    const { transport } = await open(async (request) => new Response((await request.text()).toUpperCase()))
    const body = `{"text":"${'aé'.repeat(1_500_000)}"}`
    expect((await (await transport.fetch('/', post(body))).text(20_000_000)) === body.toUpperCase()).toBe(true)
  })

  test('an answer that begins before its request is whole, and one that never reads it', async () => {
    const { transport, tunnels } = await open(async () => new Response('early'))
    const response = await transport.fetch('/', post('x'.repeat(5_000_000)))
    expect(await response.text(100)).toBe('early')
    expect(tunnels.counts()).toEqual({ tunnels: 1, streams: 0 })
    expect(await (await transport.fetch('/', get)).text(100)).toBe('early')
  })

  test('a stream arrives event by event', async () => {
    const steps = [0, 1, 2, 3].map(() => Promise.withResolvers<void>())
    const { transport } = await open(async () => events(3, (at) => steps[at]?.promise ?? Promise.resolve()))
    const response = await transport.fetch('/', post('{}'))
    let text = ''
    const ended = Promise.withResolvers<void>()
    response.read({
      bytes: (chunk) => {
        text += chunk.toString()
      },
      ended: ended.resolve,
      failed: ended.reject,
    })
    for (const [at, step] of steps.entries()) {
      expect(text.split('\n\n').length - 1).toBe(at)
      step.resolve()
      if (at < 3) await waitUntil('the next event', () => text.split('\n\n').length - 1 === at + 1)
    }
    await ended.promise
    expect(text).toBe('data: {"n":0}\n\ndata: {"n":1}\n\ndata: {"n":2}\n\n')
  })

  test('a node that compresses anyway is readable', async () => {
    const text = 'data: {"a":1}\n\n'.repeat(50)
    const { transport } = await open(
      async () => new Response(Bun.gzipSync(text), { headers: { 'content-encoding': 'gzip' } }),
    )
    expect(await (await transport.fetch('/', get)).text(10_000)).toBe(text)
  })

  test('100 at a time, each its own answer', async () => {
    const { transport, tunnels } = await open(async (request) =>
      events(20, turn)
        .text()
        .then((text) => new Response(`${new URL(request.url).search}\n${text}`)),
    )
    const texts = await Promise.all(
      Array.from({ length: 100 }, async (_, n) => (await transport.fetch(`/?n=${n}`, post('{}'))).text(10_000)),
    )
    for (const [n, text] of texts.entries()) {
      expect(text.split('\n')[0]).toBe(`?n=${n}`)
      expect(text).toContain('data: {"n":19}')
    }
    expect(tunnels.counts().streams).toBe(0)
  })
})

describe('§22: failures', () => {
  test('no tunnel: closed; already aborted: aborted', async () => {
    const { transport, node, tunnels } = await open(async () => new Response('x'))
    const gone = new AbortController()
    gone.abort()
    expect((await failure(transport.fetch('/', { method: 'GET', signal: gone.signal }))).failure).toBe('aborted')
    const closed = new Promise<void>((done) => tunnels.subscribe({ onClose: () => done() }))
    await node.stop()
    await closed
    expect((await failure(transport.fetch('/', get))).failure).toBe('closed')
  })

  test('the tunnel breaks before the answer, and in the middle of it', async () => {
    const arrived = Promise.withResolvers<void>()
    const { transport, server } = await open(async (request) => {
      if (new URL(request.url).pathname === '/never') {
        arrived.resolve()
        return new Promise<Response>(() => {})
      }
      return events(2, (at) => (at === 0 ? Promise.resolve() : new Promise(() => {})))
    })
    const never = failure(transport.fetch('/never', get))
    await arrived.promise
    const half = await transport.fetch('/half', get)
    const end = Promise.withResolvers<string>()
    const first = Promise.withResolvers<void>()
    half.read({
      bytes: () => first.resolve(),
      ended: () => end.resolve('ended'),
      failed: (error) => end.resolve(error.failure),
    })
    await first.promise
    await server.stop(true)
    expect((await never).failure).toBe('closed')
    expect(await end.promise).toBe('closed')
  })

  test('the node fails: before its answer, and in the middle of it', async () => {
    const { transport, tunnels } = await open(async (request) => {
      if (new URL(request.url).pathname === '/before') throw new Error('a defect of the node')
      return events(2, (at) => (at === 0 ? Promise.resolve() : Promise.reject(new Error('broken'))))
    })
    expect((await failure(transport.fetch('/before', get))).failure).toBe('closed')
    const half = await transport.fetch('/half', get)
    expect((await failure(half.text(1_000))).failure).toBe('closed')
    expect(tunnels.counts()).toEqual({ tunnels: 1, streams: 0 })
  })

  test('a body larger than its reader takes is given up, at the node too', async () => {
    const cancelled = Promise.withResolvers<void>()
    const { transport } = await open(async () => events(1e9, turn, cancelled.resolve))
    expect((await failure((await transport.fetch('/', get)).text(10_000))).failure).toBe('too_large')
    await cancelled.promise
  })

  test('one request too many is answered as by a full node', async () => {
    const { transport, tunnels } = await open(() => new Promise<Response>(() => {}))
    const client = new AbortController()
    const held = Array.from({ length: openStreamsMax }, () =>
      failure(transport.fetch('/', { method: 'GET', signal: client.signal })),
    )
    const response = await transport.fetch('/', get)
    expect([response.status, response.headers.get('retry-after'), await response.text(10)]).toEqual([429, '1', ''])
    client.abort()
    for (const one of held) expect((await one).failure).toBe('aborted')
    expect(tunnels.counts()).toEqual({ tunnels: 1, streams: 0 })
  })

  test('a node that breaks the protocol is cut off with a code', async () => {
    const { tunnels, url } = await open(async () => new Response('x'))
    const more = nextOpen(tunnels)
    const rough = new WebSocket(url, { headers: { 'x-svc-node-id': 'node_rough' } } as never)
    const ready = new Promise<void>((done) => rough.addEventListener('open', () => done()))
    const closed = new Promise<number>((done) => rough.addEventListener('close', ({ code }) => done(code)))
    await Promise.all([more, ready])
    rough.send(Buffer.from('0300000007', 'hex'))
    expect(await closed).toBe(4014)
    expect(tunnels.session(nodeId)).not.toBeNull()
  })

  test('a message far beyond a frame does not reach the decoder', async () => {
    const { tunnels, url } = await open(async () => new Response('x'))
    const more = nextOpen(tunnels)
    const rough = new WebSocket(url, { headers: { 'x-svc-node-id': 'node_rough' } } as never)
    const ready = new Promise<void>((done) => rough.addEventListener('open', () => done()))
    const closed = new Promise<void>((done) => rough.addEventListener('close', () => done()))
    await Promise.all([more, ready])
    rough.send(Buffer.alloc(1024 * 1024, 2))
    await closed
    expect(tunnels.session('node_rough')).toBeNull()
  })
})

describe('§5: a client that leaves stops the node', () => {
  test('before the answer: the request of the node is aborted', async () => {
    const arrived = Promise.withResolvers<void>()
    const aborted = Promise.withResolvers<void>()
    const { transport } = await open((request) => {
      arrived.resolve()
      request.signal.addEventListener('abort', () => aborted.resolve())
      return new Promise<Response>(() => {})
    })
    const client = new AbortController()
    const call = failure(transport.fetch('/', { method: 'GET', signal: client.signal }))
    await arrived.promise
    client.abort()
    expect((await call).failure).toBe('aborted')
    await aborted.promise
  })

  test('in the middle of the stream: its source is cancelled', async () => {
    const cancelled = Promise.withResolvers<void>()
    const { transport, tunnels } = await open(async () =>
      events(5, (at) => (at === 0 ? Promise.resolve() : new Promise(() => {})), cancelled.resolve),
    )
    const client = new AbortController()
    const response = await transport.fetch('/', { method: 'GET', signal: client.signal })
    const end = Promise.withResolvers<string>()
    response.read({
      bytes: () => client.abort(),
      ended: () => end.resolve('ended'),
      failed: (error) => end.resolve(error.failure),
    })
    expect(await end.promise).toBe('aborted')
    await cancelled.promise
    expect(tunnels.counts().streams).toBe(0)
  })

  test('with its tunnel, whatever the node does', async () => {
    const aborted = Promise.withResolvers<void>()
    const arrived = Promise.withResolvers<void>()
    const { transport, server } = await open((request) => {
      request.signal.addEventListener('abort', () => aborted.resolve())
      arrived.resolve()
      return new Promise<Response>(() => {})
    })
    void transport.fetch('/', get).catch(() => {})
    await arrived.promise
    await server.stop(true)
    await aborted.promise
  })
})

describe('§22: a slow reader', () => {
  const chunk = new Uint8Array(8 * 1024).fill(120)
  const endless = (given: { bytes: number }) =>
    new Response(
      new ReadableStream<Uint8Array>(
        {
          pull: (controller) => {
            given.bytes += chunk.length
            controller.enqueue(chunk)
          },
        },
        { highWaterMark: 0 },
      ),
    )

  test('holds its own sender at one window and stalls nobody else', async () => {
    const given = { bytes: 0 }
    const { transport, tunnels } = await open(async (request) =>
      new URL(request.url).pathname === '/endless' ? endless(given) : new Response('ok'),
    )
    const stalled = await transport.fetch('/endless', get)
    let read = 0
    stalled.read({
      bytes: (bytes) => {
        read += bytes.length
        stalled.flow.pause()
      },
      ended: () => {},
      failed: () => {},
    })
    await waitUntil('the window is used up', () => given.bytes >= windowBytes)
    // Every one of these passes the stalled stream on the same socket.
    const big = 'y'.repeat(500_000)
    for (let i = 0; i < 20; i++) expect(await (await transport.fetch('/', post(big))).text(10)).toBe('ok')
    expect(read).toBeLessThanOrEqual(windowBytes)
    // One chunk more waits at the node for credit.
    expect(given.bytes).toBeLessThanOrEqual(windowBytes + chunk.length)
    const before = read
    stalled.flow.resume()
    await waitUntil('it goes on', () => read > before)
    stalled.discard()
    expect(tunnels.counts().streams).toBe(0)
  })

  test('a body that nobody reads yet is bounded, too', async () => {
    const given = { bytes: 0 }
    const { transport } = await open(async () => endless(given))
    const response = await transport.fetch('/', get)
    await waitUntil('the windows are used up', () => given.bytes >= windowBytes)
    await (await transport.fetch('/', get)).discard()
    expect(given.bytes).toBeLessThanOrEqual(4 * windowBytes)
    response.discard()
  })

  test('a long request is handed over before it is whole, and flows as it is read', async () => {
    const arrived = Promise.withResolvers<Request>()
    const answered = Promise.withResolvers<Response>()
    const { transport, tunnels } = await open((request) => {
      arrived.resolve(request)
      return answered.promise
    })
    const call = transport.fetch('/', post('z'.repeat(8 * 1024 * 1024)))
    const request = await arrived.promise
    expect(tunnels.counts().streams).toBe(1)
    const text = await request.text()
    expect(text.length).toBe(8 * 1024 * 1024)
    answered.resolve(new Response('read'))
    expect(await (await call).text(10)).toBe('read')
  })
})
