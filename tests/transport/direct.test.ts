import { dlopen, FFIType, ptr } from 'bun:ffi'
import { afterEach, describe, expect, test } from 'bun:test'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createDirectTransport, nodeBaseUrl } from '../../src/transport/http1/direct.ts'
import { TransportError } from '../../src/transport/transport.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitLimitMs } from '../support/run/limits.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0)) await clean()
})

function serve(handler: (request: Request) => Response | Promise<Response>) {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: handler })
  cleanups.push(() => server.stop(true))
  return `http://127.0.0.1:${server.port}`
}

async function rawServer(onSocket: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onSocket(socket)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const transport = (url: string, more: { apiKey?: string; connectTimeoutMs?: number } = {}) =>
  createDirectTransport({ url, apiKey: more.apiKey ?? null, connectTimeoutMs: more.connectTimeoutMs ?? waitLimitMs })

const get = { method: 'GET', signal: new AbortController().signal } as const

async function failure(work: Promise<unknown>): Promise<TransportError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(TransportError)
  return error as TransportError
}

describe('§22 direct transport', () => {
  test('sends identity, the key and the given headers; keeps the connection', async () => {
    const seen: (string | null)[][] = []
    const url = serve((request) => {
      const names = ['accept-encoding', 'authorization', 'content-type']
      seen.push(names.map((name) => request.headers.get(name)))
      return new Response('ok')
    })
    const node = transport(url, { apiKey: 'secret-of-the-node' })
    const headers = { 'content-type': 'application/json', authorization: 'Bearer of-the-client' }
    const response = await node.fetch('/v1/chat/completions', { ...get, method: 'POST', body: '{}', headers })
    expect(await response.text(1_000_000)).toBe('ok')
    expect(seen).toEqual([['identity', 'Bearer secret-of-the-node', 'application/json']])
  })

  test('one connection serves calls that follow each other', async () => {
    let connections = 0
    const url = await rawServer((socket) => {
      connections++
      socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'))
    })
    const node = transport(url)
    for (let i = 0; i < 5; i++) expect(await (await node.fetch('/v1/models', get)).text(1_000)).toBe('ok')
    expect(connections).toBe(1)
  })

  test('a node that compresses anyway is readable', async () => {
    const text = 'data: {"a":1}\n\n'.repeat(50)
    const url = serve(() => new Response(Bun.gzipSync(text), { headers: { 'content-encoding': 'gzip' } }))
    const body = await (await transport(url).fetch('/', get)).text(1_000_000)
    expect(body).toBe(text)
  })

  test('a redirect is handed back, never followed', async () => {
    let followed = false
    const target = serve(() => {
      followed = true
      return new Response('x')
    })
    const url = serve(() => Response.redirect(target, 302))
    expect((await transport(url).fetch('/', get)).status).toBe(302)
    expect(followed).toBe(false)
  })

  test('a proxy of the environment is not used', async () => {
    const url = serve(() => new Response('direct'))
    const script = `
      const { createDirectTransport } = await import('./src/transport/http1/direct.ts')
      const node = createDirectTransport({ url: '${url}', apiKey: null, connectTimeoutMs: 60000 })
      console.log(await (await node.fetch('/', { method: 'GET', signal: new AbortController().signal })).text(100))
      node.close()`
    const proxy = 'http://127.0.0.1:1'
    const child = Bun.spawn([process.execPath, '-e', script], {
      cwd: `${import.meta.dir}/../..`,
      env: { ...process.env, HTTP_PROXY: proxy, http_proxy: proxy, HTTPS_PROXY: proxy, NO_PROXY: '' },
    })
    expect(await new Response(child.stdout).text()).toBe('direct\n')
  })

  test('base URLs with and without /v1, with a path and with a slash', () => {
    expect(nodeBaseUrl('http://h:1')).toBe('http://h:1')
    expect(nodeBaseUrl('http://h:1/v1/')).toBe('http://h:1')
    expect(nodeBaseUrl('https://h/llm/v1')).toBe('https://h/llm')
    expect(nodeBaseUrl('http://[::1]:8080/')).toBe('http://[::1]:8080')
    for (const bad of ['h:1', 'ftp://h', 'http://u:p@h', 'http://h/?a=1', 'http://h/#a', '']) {
      expect(nodeBaseUrl(bad)).toBeNull()
    }
  })
})

describe('failures name no address', () => {
  test('refused', async () => {
    const error = await failure(transport('http://127.0.0.1:1').fetch('/', get))
    expect(error.failure).toBe('refused')
    expect(`${error.message} ${error.stack}`).not.toContain('127.0.0.1')
  })

  test('closed before an answer, and an answer that is not HTTP', async () => {
    const closing = await rawServer((socket) => socket.destroy())
    expect((await failure(transport(closing).fetch('/', get))).failure).toBe('closed')
    const garbage = await rawServer((socket) => socket.end('not http\r\n\r\n'))
    expect((await failure(transport(garbage).fetch('/', get))).failure).toBe('malformed')
  })

  test('unknown host', async () => {
    expect((await failure(transport('http://no-such-host.invalid').fetch('/', get))).failure).toBe('dns')
  })

  test('TLS toward a server without it', async () => {
    const url = serve(() => new Response('x'))
    expect((await failure(transport(url.replace('http:', 'https:')).fetch('/', get))).failure).toBe('tls')
  })

  test('after close: closed', async () => {
    const node = transport(serve(() => new Response('x')))
    node.close()
    expect((await failure(node.fetch('/', get))).failure).toBe('closed')
  })
})

describe('§5: a client that leaves stops the node', () => {
  test('before the headers, and already gone', async () => {
    const gone = Promise.withResolvers<void>()
    const arrived = Promise.withResolvers<void>()
    const url = await rawServer((socket) => {
      socket.on('data', () => arrived.resolve())
      socket.on('close', () => gone.resolve())
    })
    const client = new AbortController()
    const call = transport(url).fetch('/', { method: 'GET', signal: client.signal })
    await arrived.promise
    client.abort()
    expect((await failure(call)).failure).toBe('aborted')
    await gone.promise
    expect((await failure(transport(url).fetch('/', { method: 'GET', signal: client.signal }))).failure).toBe('aborted')
  })

  test('in the middle of the body', async () => {
    const gone = Promise.withResolvers<void>()
    const url = await rawServer((socket) => {
      socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n'))
      socket.on('close', () => gone.resolve())
    })
    const client = new AbortController()
    const response = await transport(url).fetch('/', { method: 'GET', signal: client.signal })
    const first = Promise.withResolvers<string>()
    const end = Promise.withResolvers<string>()
    response.read({
      bytes: (bytes) => first.resolve(new TextDecoder().decode(bytes)),
      ended: () => end.resolve('ended'),
      failed: (error) => end.resolve(error.failure),
    })
    expect(await first.promise).toBe('ok')
    client.abort()
    await gone.promise
    expect(await end.promise).toBe('aborted')
  })
})

describe('bodies', () => {
  const answer = async (parts: readonly (string | Uint8Array)[], close = true) => {
    const url = await rawServer((socket) => {
      socket.once('data', async () => {
        for (const part of parts) await new Promise<unknown>((sent) => socket.write(part, sent))
        if (close) socket.end()
      })
    })
    return transport(url).fetch('/', get)
  }

  test('until the connection closes; interim answers are passed over', async () => {
    const response = await answer(['HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nab', 'cd'])
    expect([response.status, await response.text(100)]).toEqual([200, 'abcd'])
  })

  test('cut in the middle of a sized or chunked body: closed, never a short text', async () => {
    const sized = await answer(['HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc'])
    expect((await failure(sized.text(100))).failure).toBe('closed')
    const chunked = await answer(['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n'])
    expect((await failure(chunked.text(100))).failure).toBe('closed')
  })

  test('a body larger than its reader takes is given up', async () => {
    const response = await answer(['HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n', 'x'.repeat(4_000)])
    expect((await failure(response.text(1_000))).failure).toBe('too_large')
  })

  test('a large request goes out whole, in its bytes', async () => {
    const url = serve(async (request) => new Response(await request.text()))
    const body = `{"text":"${'€ä'.repeat(500_000)}"}`
    const response = await transport(url).fetch('/', { ...get, method: 'POST', body })
    expect((await response.text(10_000_000)) === body).toBe(true)
  })

  test('a kept connection that the node has closed meanwhile does not fail the next call', async () => {
    let connections = 0
    const url = await rawServer((socket) => {
      connections++
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
        socket.once('data', () => socket.destroy())
      })
    })
    const node = transport(url)
    expect(await (await node.fetch('/', get)).text(10)).toBe('ok')
    expect(await (await node.fetch('/', get)).text(10)).toBe('ok')
    expect(connections).toBe(2)
  })

  test('a reader that pauses holds the node back', async () => {
    const total = 64 * 1024 * 1024
    const url = await rawServer((socket) => {
      let written = 0
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`)
        const piece = Buffer.alloc(1024 * 1024)
        const more = () => {
          while (written < total) {
            written += piece.length
            if (!socket.write(piece)) return socket.once('drain', more)
          }
        }
        more()
      })
    })
    const response = await transport(url).fetch('/', get)
    let read = 0
    const done = Promise.withResolvers<void>()
    response.read({
      bytes: (bytes) => {
        read += bytes.length
        if (read === bytes.length) response.flow.pause()
      },
      ended: done.resolve,
      failed: done.reject,
    })
    // Another one of the same size arrives whole meanwhile.
    expect((await (await transport(url).fetch('/', get)).text(total)).length).toBe(total)
    expect(read).toBeLessThan(total / 4)
    response.flow.resume()
    await done.promise
    expect(read).toBe(total)
  })
})

/** A port that takes no connection: its backlog is full and nobody accepts. Linux then drops what arrives. */
function unacceptingPort(): number {
  const libc = dlopen('libc.so.6', {
    socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    bind: { args: [FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
    listen: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    getsockname: { args: [FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
    connect: { args: [FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
    close: { args: [FFIType.i32], returns: FFIType.i32 },
  }).symbols
  const address = new Uint8Array([2, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
  const length = new Uint32Array([16])
  const listener = libc.socket(2, 1, 0)
  expect(libc.bind(listener, ptr(address), 16)).toBe(0)
  expect(libc.listen(listener, 0)).toBe(0)
  libc.getsockname(listener, ptr(address), ptr(length))
  const nonBlockingStream = 1 | 0x800
  const fillers = Array.from({ length: 4 }, () => libc.socket(2, nonBlockingStream, 0))
  for (const filler of fillers) libc.connect(filler, ptr(address), 16)
  cleanups.push(() => {
    for (const socket of [listener, ...fillers]) libc.close(socket)
  })
  return ((address[2] ?? 0) << 8) | (address[3] ?? 0)
}

describe('§5 connect timeout', () => {
  test.if(process.platform === 'linux')('a node that takes no connection is given up', async () => {
    const node = transport(`http://127.0.0.1:${unacceptingPort()}`, { connectTimeoutMs: 300 })
    const calls = [node.fetch('/', get), node.fetch('/', get)]
    for (const call of calls) expect((await failure(call)).failure).toBe('timeout')
  })

  test('a node that takes the connection may be slow with its headers', async () => {
    const url = serve(async () => {
      await lasts(3_000)
      return new Response('late')
    })
    const response = await transport(url, { connectTimeoutMs: 1_500 }).fetch('/', get)
    expect(await response.text(1_000_000)).toBe('late')
  })
})
