import { afterEach, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { Closing } from '../../src/listener/closing.ts'
import { socketsAt } from '../../src/listener/kernel-sockets.ts'
import { refuseConnections } from '../../src/listener/listening-socket.ts'
import { ownSocketsAt, seesSockets } from '../../src/listener/own-sockets.ts'
import { handshakingAt } from '../../src/listener/socket-diagnosis.ts'
import { waitLimitMs } from '../support/run/limits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const servers: Bun.Server<unknown>[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop(true)
})

function serve(answer: (request: Request) => Response | Promise<Response> = () => new Response('ok')) {
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer })
  servers.push(server)
  return { server, port: server.port ?? 0, closing: new Closing([server]) }
}

/** A connection whose handshake is done. */
interface Client {
  readonly socket: Socket
  /** What came until the connection ended, or how it failed. */
  readonly ended: Promise<string>
}

async function client(port: number): Promise<Client> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  const ended = new Promise<string>((done) => {
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString()
    })
    socket.on('error', (error: Error & { readonly code?: string }) => done(error.code ?? 'failed'))
    socket.on('close', () => done(text))
  })
  await new Promise<void>((done, fail) => {
    socket.on('connect', () => done())
    socket.on('error', fail)
  })
  return { socket, ended }
}

const request = (path = '/') => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
const refuses = (port: number) =>
  client(port).then(
    ({ socket }) => {
      socket.destroy()
      return false
    },
    () => true,
  )

test('§1: a connection that has said nothing when its listener closes is answered when it does', async () => {
  const { port, closing } = serve()
  // The kernel keeps those that came before the end began, and hands over those that come later.
  const before = await client(port)
  closing.begin()
  const after = await client(port)
  await closing.close()
  expect(await refuses(port)).toBe(true)
  for (const { socket, ended } of [before, after]) {
    socket.write(request())
    expect(await ended).toEndWith('\r\n\r\nok')
  }
  await closing.quiet(1_000)
})

const openAt = (port: number) => socketsAt(port, 'ipv4').filter(({ state }) => state === 'open').length

// Elsewhere nothing sees the kernel's sockets, and nothing sets the options of a listener.
test.skipIf(!seesSockets)('§1: from the beginning of the end the kernel keeps no silent connection back', async () => {
  const { port, closing } = serve()
  closing.begin()
  const silent = await Promise.all(Array.from({ length: 20 }, () => client(port)))
  // Kept back, they would all be handshaking for a second.
  expect(openAt(port)).toBeGreaterThan(0)
  for (const { socket } of silent) socket.destroy()
})

test.skipIf(!seesSockets).each([
  ['ipv4', '127.0.0.1'],
  ['ipv6', '::'],
] as const)(
  '§1: a connection that is being made is seen at a listener of %s, by the question and in the table',
  async (family, hostname) => {
    const server = Bun.serve({ hostname, port: 0, fetch: () => new Response('ok') })
    servers.push(server)
    const port = server.port ?? 0
    const inTable = () => socketsAt(port, family).some(({ state }) => state === 'handshaking')
    // Where the question is forbidden, the table is looked at.
    const asked = () => handshakingAt(port, family) ?? inTable()
    expect([asked(), inTable()]).toEqual([false, false])
    // It says nothing, so the kernel keeps it back.
    const { socket, ended } = await client(port)
    await waitUntil('it is seen', asked)
    expect(inTable()).toBe(true)
    socket.write(request().replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
    expect(await ended).toEndWith('ok')
    expect([asked(), inTable()]).toEqual([false, false])
  },
)

test.skipIf(!seesSockets)('§1: a listener that opens no connection finishes those that are being made', async () => {
  const { server, port } = serve()
  const { socket, ended } = await client(port)
  expect(refuseConnections(port)).toBe(true)
  const late = refuses(port)
  socket.write(request().replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
  expect(await ended).toEndWith('ok')
  // It asks again and again, until nobody listens.
  await server.stop(true)
  expect(await late).toBe(true)
})

test('§1: what waits to be accepted when a listener closes is answered', async () => {
  const { port, closing } = serve()
  closing.begin()
  const child = Bun.spawn([process.execPath, '-e', connecting(port)], { stdout: 'pipe', stderr: 'inherit' })
  const output = child.stdout.getReader()
  await output.read()
  // This turn takes long: what the child connects meanwhile, the kernel accepts and nobody else.
  const busyUntil = Date.now() + 200
  while (Date.now() < busyUntil);
  await closing.close()
  await closing.quiet(1_000)
  let said = ''
  for (;;) {
    const { value, done } = await output.read()
    said += new TextDecoder().decode(value)
    if (done) break
  }
  const { answered, reset } = JSON.parse(said.trim().split('\n').at(-1) ?? '') as Record<string, number>
  expect(reset).toBe(0)
  expect(answered).toBeGreaterThan(0)
})

/** A program that opens connection after connection until none is accepted, and says what became of them. */
const connecting = (port: number) => `
  const { connect } = require('node:net')
  console.log('begun')
  let answered = 0, reset = 0, refused = 0, open = 0
  const one = () => {
    if (refused > 0) return open === 0 && console.log(JSON.stringify({ answered, reset }))
    let there = false, text = ''
    open++
    const socket = connect(${port}, '127.0.0.1')
    socket.on('connect', () => { there = true; socket.write(${JSON.stringify(request().replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))}) })
    socket.on('data', (bytes) => { text += bytes })
    socket.on('error', () => {})
    socket.on('close', () => { open--; text.endsWith('ok') ? answered++ : there ? reset++ : refused++; one() })
  }
  for (let i = 0; i < 40; i++) one()
`

test.skipIf(!seesSockets)(
  '§1: a process sees its own listener, what waits to be accepted there, and what is open',
  async () => {
    const { port, closing } = serve()
    expect(ownSocketsAt([port])).toMatchObject([{ family: 'ipv4', state: 'listening', waiting: 0 }])
    expect(ownSocketsAt([])).toEqual([])
    closing.begin()
    const child = Bun.spawn([process.execPath, '-e', `require('node:net').connect(${port}, '127.0.0.1')`])
    // In one turn: nothing is accepted meanwhile.
    const waiting = () => ownSocketsAt([port]).some((socket) => socket.waiting === 1)
    for (let look = 0; look < waitLimitMs && !waiting(); look++) Bun.sleepSync(1)
    expect(waiting()).toBe(true)
    await waitUntil('it is accepted', () => ownSocketsAt([port]).some(({ state }) => state === 'open'))
    expect(waiting()).toBe(false)
    child.kill()
    await waitUntil('it is gone', () => ownSocketsAt([port]).length === 1)
  },
)

test('§1: a request that arrives on a kept connection while its listener closes is answered', async () => {
  const { port, closing } = serve()
  const { socket, ended } = await client(port)
  let text = ''
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString()
  })
  socket.write(request())
  await waitUntil('the first answer', () => text.endsWith('ok'))
  const closed = closing.close()
  socket.write(request())
  await closed
  expect((await ended).match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2)
})

test('§1: what runs when a listener closes goes on, and its connection ends with its answer', async () => {
  const released = Promise.withResolvers<Response>()
  const arrived = Promise.withResolvers<void>()
  const { port, closing } = serve(() => {
    arrived.resolve()
    return released.promise
  })
  const { socket, ended } = await client(port)
  socket.write(request())
  await arrived.promise
  await closing.close()
  expect(await refuses(port)).toBe(true)
  released.resolve(new Response('late'))
  await closing.answered(Number.POSITIVE_INFINITY)
  expect(await ended).toEndWith('late')
})
