import { afterAll, afterEach, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { ClientStream } from '../../src/transport/client-stream.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const queueMax = 64 * 1024
/** More than the kernel takes for a client that does not read. */
const pieces = 64
const piece = `${'x'.repeat(256 * 1024 - 1)}\n`

let served: ClientStream
const server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: () => new Response(served.stream) })
let client: Socket
let heard = ''
let bytes = 0
let fault: string | null = null
let over = false
/** How often the client was found gone, and what the node's flow was told. */
let gone = 0
const told: string[] = []

afterEach(() => client.destroy())
afterAll(() => server.stop(true))

function open(): ClientStream {
  ;[heard, bytes, fault, over, gone] = ['', 0, null, false, 0]
  told.length = 0
  served = new ClientStream(queueMax, () => {
    gone++
  })
  served.source = { pause: () => told.push('pause'), resume: () => told.push('resume') }
  return served
}

/** A client that asks; `reads`: at once. */
function ask({ reads = true } = {}): void {
  client = connect(server.port ?? 0, '127.0.0.1')
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  if (!reads) client.pause()
  client.on('data', (more) => {
    bytes += more.length
    heard = (heard + more.toString('latin1')).slice(-10_000)
  })
  client.on('error', (error: NodeJS.ErrnoException) => {
    fault = error.code ?? 'unknown'
  })
  client.on('close', () => {
    over = true
  })
}

const now = () => performance.now()
const connected = () => waitUntil('a connection', () => server.pendingRequests > 0)

async function fill(stream: ClientStream): Promise<void> {
  for (let at = 0; at < pieces; at++) {
    stream.write(piece, now())
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('what was written before the head goes out behind it, in its order', async () => {
  const stream = open()
  stream.write('one ', now())
  stream.write('two ', now())
  ask()
  await waitUntil('both', () => heard.includes('two'))
  stream.write('three', now())
  stream.close()
  await waitUntil('the end', () => heard.endsWith('0\r\n\r\n'))
  expect(heard.slice(heard.indexOf('\r\n\r\n')).replaceAll(/\r\n[0-9]*/g, '')).toBe('one two three')
  expect(gone).toBe(0)
})

test('one that was over before its head is whole', async () => {
  const stream = open()
  stream.write('all of it', now())
  stream.close()
  ask()
  await waitUntil('all', () => heard.includes('all of it'))
  expect(gone).toBe(0)
})

test('before there is a head, too, the node is held back beyond the queue', async () => {
  const stream = open()
  stream.write('x'.repeat(queueMax), now())
  expect(told).toEqual(['pause'])
  expect(stream.stalledAtMs).toBeGreaterThan(0)
  ask()
  await waitUntil('all', () => bytes > queueMax)
  expect(told).toEqual(['pause', 'resume'])
  expect(stream).toMatchObject({ stalledAtMs: 0, queued: 0 })
})

test('a client that does not read holds its node back once, and lets it go when it reads', async () => {
  const stream = open()
  ask({ reads: false })
  await connected()
  await fill(stream)
  const held = told.length
  expect(told.at(-1)).toBe('pause')
  expect(stream.stalledAtMs).toBeGreaterThan(0)
  expect(stream.queued).toBeGreaterThan(queueMax)
  client.resume()
  await waitUntil('the node goes on', () => told.length > held)
  expect(told.slice(held)).toEqual(['resume'])
  expect(stream).toMatchObject({ stalledAtMs: 0, queued: 0 })
  stream.close()
  await waitUntil('the end', () => heard.endsWith('0\r\n\r\n'))
  expect(bytes).toBeGreaterThan(pieces * piece.length)
})

test('closed while the client is behind: it still gets all of it, and the end', async () => {
  const stream = open()
  ask({ reads: false })
  await connected()
  await fill(stream)
  stream.close()
  client.resume()
  await waitUntil('the end', () => heard.endsWith('0\r\n\r\n'))
  expect(bytes).toBeGreaterThan(pieces * piece.length)
  expect(gone).toBe(0)
})

test('closed when it is read: what is kept of it is let go then, once', async () => {
  const stream = open()
  let reads = 0
  ask({ reads: false })
  await connected()
  await fill(stream)
  stream.closeWhenRead(() => {
    reads++
  })
  expect(reads).toBe(0)
  client.resume()
  await waitUntil('the end', () => heard.endsWith('0\r\n\r\n'))
  expect(reads).toBe(1)
})

test('closed when it is read, by a client that leaves: what is kept is let go', async () => {
  const stream = open()
  let reads = 0
  ask({ reads: false })
  await connected()
  await fill(stream)
  stream.closeWhenRead(() => {
    reads++
  })
  client.destroy()
  await waitUntil('it is let go', () => reads > 0)
  expect(reads).toBe(1)
})

test.each([
  ['with its head', true],
  ['before its head', false],
])('a cut %s resets the connection: nobody takes what came for a whole answer', async (_, first) => {
  const stream = open()
  stream.write('half of it', now())
  if (!first) stream.cut()
  ask()
  if (first) {
    await waitUntil('half', () => heard.includes('half of it'))
    stream.cut()
  }
  await waitUntil('the connection is over', () => over)
  expect(fault).toBe('ECONNRESET')
  expect(heard).not.toContain('\r\n0\r\n')
  expect(gone).toBe(0)
})

test('a client that leaves is told of once, and what is written then goes nowhere', async () => {
  const stream = open()
  ask()
  await connected()
  stream.write('a word', now())
  await waitUntil('it', () => heard.includes('a word'))
  client.destroy()
  await waitUntil('it is gone', () => gone > 0)
  stream.write('another', now())
  stream.cut()
  stream.close()
  expect(gone).toBe(1)
  expect(stream.queued).toBe(0)
})
