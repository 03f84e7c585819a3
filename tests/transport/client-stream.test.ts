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
/** What the client saw, how often it was found gone, and what the node's flow was told. Each test has its own: the last one's client may still be closing. */
const nothing = () => ({
  heard: '',
  bytes: 0,
  fault: null as string | null,
  over: false,
  gone: 0,
  told: [] as string[],
})
let seen = nothing()

afterEach(() => client.destroy())
afterAll(() => server.stop(true))

function open(max = queueMax): ClientStream {
  const own = nothing()
  seen = own
  served = new ClientStream(max, () => {
    own.gone++
  })
  served.source = { pause: () => own.told.push('pause'), resume: () => own.told.push('resume') }
  return served
}

/** A client that asks; `reads`: at once. */
function ask({ reads = true } = {}): void {
  const own = seen
  client = connect(server.port ?? 0, '127.0.0.1')
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  if (!reads) client.pause()
  client.on('data', (more) => {
    own.bytes += more.length
    own.heard = (own.heard + more.toString('latin1')).slice(-10_000)
  })
  client.on('error', (error: NodeJS.ErrnoException) => {
    own.fault = error.code ?? 'unknown'
  })
  client.on('close', () => {
    own.over = true
  })
}

/** When a piece is written is the writer's to say. */
const atMs = 1
const connected = () => waitUntil('a connection', () => server.pendingRequests > 0)

async function fill(stream: ClientStream): Promise<void> {
  for (let at = 0; at < pieces; at++) {
    stream.write(piece, atMs)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('what was written before the head goes out behind it, in its order', async () => {
  const stream = open()
  stream.write('one ', atMs)
  stream.write('two ', atMs)
  ask()
  await waitUntil('both', () => seen.heard.includes('two'))
  stream.write('three', atMs)
  stream.close()
  await waitUntil('the end', () => seen.heard.endsWith('0\r\n\r\n'))
  expect(seen.heard.slice(seen.heard.indexOf('\r\n\r\n')).replaceAll(/\r\n[0-9]*/g, '')).toBe('one two three')
  expect(seen.gone).toBe(0)
})

test('one that was over before its head is whole', async () => {
  const stream = open()
  stream.write('all of it', atMs)
  stream.close()
  ask()
  await waitUntil('all', () => seen.heard.includes('all of it'))
  expect(seen.gone).toBe(0)
})

test('before there is a head, too, the node is held back beyond the queue', async () => {
  const stream = open()
  stream.write('x'.repeat(queueMax), atMs)
  expect(seen.told).toEqual(['pause'])
  expect(stream.stalledAtMs).toBeGreaterThan(0)
  ask()
  await waitUntil('all', () => seen.bytes > queueMax)
  expect(seen.told).toEqual(['pause', 'resume'])
  expect(stream).toMatchObject({ stalledAtMs: 0, queued: 0 })
})

test('a client that does not read holds its node back once, and lets it go when it reads', async () => {
  const stream = open()
  ask({ reads: false })
  await connected()
  await fill(stream)
  const held = seen.told.length
  expect(seen.told.at(-1)).toBe('pause')
  expect(stream.stalledAtMs).toBeGreaterThan(0)
  expect(stream.queued).toBeGreaterThan(queueMax)
  client.resume()
  await waitUntil('the node goes on', () => seen.told.length > held)
  expect(seen.told.slice(held)).toEqual(['resume'])
  expect(stream).toMatchObject({ stalledAtMs: 0, queued: 0 })
  stream.close()
  await waitUntil('the end', () => seen.heard.endsWith('0\r\n\r\n'))
  expect(seen.bytes).toBeGreaterThan(pieces * piece.length)
})

test('closed while the client is behind: it still gets all of it, and the end', async () => {
  const stream = open()
  ask({ reads: false })
  await connected()
  await fill(stream)
  stream.close()
  client.resume()
  await waitUntil('the end', () => seen.heard.endsWith('0\r\n\r\n'))
  expect(seen.bytes).toBeGreaterThan(pieces * piece.length)
  expect(seen.gone).toBe(0)
})

test.each([
  ['reads it', false],
  ['leaves', true],
])('closed when it is read, by a client that %s: what is kept of it is let go then, once', async (_, leaves) => {
  const stream = open()
  let reads = 0
  ask({ reads: false })
  await connected()
  await fill(stream)
  stream.closeWhenRead(() => {
    reads++
  })
  expect(reads).toBe(0)
  if (leaves) client.destroy()
  else client.resume()
  await waitUntil('it is let go', () => reads > 0)
  if (!leaves) await waitUntil('the end', () => seen.heard.endsWith('0\r\n\r\n'))
  expect(reads).toBe(1)
})

test('closed when it is read, before there is a head: it ends behind it', async () => {
  const stream = open()
  let reads = 0
  stream.write('x'.repeat(2 * queueMax), atMs)
  stream.closeWhenRead(() => {
    reads++
  })
  expect(reads).toBe(0)
  ask()
  await waitUntil('all of it, and the head', () => seen.bytes > 2 * queueMax)
  await waitUntil('it is let go', () => reads > 0)
  expect(reads).toBe(1)
})

test('a client that reads some of a long queue counts as one that reads', async () => {
  const max = 12 * 1024 * 1024
  const stream = open(max)
  ask({ reads: false })
  await connected()
  while (seen.told.length === 0) await fill(stream)
  const left: number[] = []
  if (stream.source !== null) stream.source.resume = () => left.push(stream.queued)
  client.resume()
  await waitUntil('the node goes on', () => left.length > 0)
  expect(left[0]).toBeGreaterThan(0)
  expect(stream.stalledAtMs).toBe(0)
})

test.each([
  ['with its head', true],
  ['before its head', false],
])('a cut %s resets the connection, so that no client takes a part for the whole answer', async (_, first) => {
  const stream = open()
  stream.write('half of it', atMs)
  if (!first) stream.cut()
  ask()
  if (first) {
    await waitUntil('half', () => seen.heard.includes('half of it'))
    stream.cut()
  }
  await waitUntil('the connection is over', () => seen.over)
  expect(seen.fault).toBe('ECONNRESET')
  expect(seen.heard).not.toContain('\r\n0\r\n')
  expect(seen.gone).toBe(0)
})

test('a cut while the client is behind resets the connection', async () => {
  const stream = open()
  ask({ reads: false })
  await connected()
  await fill(stream)
  stream.cut()
  client.resume()
  await waitUntil('the connection is over', () => seen.over)
  expect(seen.fault).toBe('ECONNRESET')
  expect(seen.heard).not.toContain('\r\n0\r\n')
})

test('a client that leaves is told of once, and what is written then goes nowhere', async () => {
  const stream = open()
  ask()
  await connected()
  stream.write('a word', atMs)
  await waitUntil('it', () => seen.heard.includes('a word'))
  client.destroy()
  await waitUntil('it is gone', () => seen.gone > 0)
  stream.write('another', atMs)
  stream.cut()
  stream.close()
  expect(seen.gone).toBe(1)
  expect(stream.queued).toBe(0)
})
