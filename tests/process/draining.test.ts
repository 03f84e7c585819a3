import { afterEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import { isAlive } from '../support/gateways/npm-start.ts'
import { fresh, startProcesses } from '../support/gateways/processes.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

/** Long enough that a busy machine still looks several times meanwhile. */
const longDrain = { SVC_DRAIN_MS: '2000', SVC_SHUTDOWN_GRACE_MS: '60000' }

interface Seen {
  readonly status: number
  readonly closes: boolean
  readonly text: string
}

const look = async (url: string, path: string): Promise<Seen | null> => {
  const response = await fetch(url + path, fresh).catch(() => null)
  if (response === null) return null
  return {
    status: response.status,
    closes: response.headers.get('connection') === 'close',
    text: await response.text(),
  }
}

/** Each path over and over, on connections of its own, until its listener is closed. `heard` is called with each answer. */
async function watched(url: string, path: string, heard: (seen: Seen) => void = () => {}): Promise<readonly Seen[]> {
  const seen: Seen[] = []
  for (;;) {
    const one = await look(url, path)
    if (one === null) return seen
    heard(one)
    seen.push(one)
  }
}

/** A connection that has said nothing; `say` asks on it. */
async function silent(url: string): Promise<{ say(path: string): Promise<string> }> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let text = ''
  const ended = new Promise<string>((done) => {
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString()
    })
    socket.on('error', (error: Error & { readonly code?: string }) => done(error.code ?? 'failed'))
    socket.on('close', () => done(text))
  })
  await new Promise<void>((done) => socket.on('connect', () => done()))
  return {
    say: (path) => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
      return ended
    },
  }
}

async function gatewayOf(start: () => Promise<TestGateway>): Promise<TestGateway> {
  const gateway = await start()
  undo.push(() => gateway.stop())
  return gateway
}

test('§1: a gateway that ends says so, answers what still comes on every listener, and resets nothing', async () => {
  const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', ...longDrain }
  const gateway = await gatewayOf(() => startTestGateway({ env }))
  const { url, ollamaUrl } = gateway
  const before = await Promise.all([silent(url), silent(ollamaUrl ?? '')])
  const stopping = gateway.stop()
  undo.length = 0
  const [ready, alive, ollama] = await Promise.all([
    watched(url, '/readyz'),
    watched(url, '/healthz'),
    watched(ollamaUrl ?? '', '/api/version'),
  ])
  expect(ready.length).toBeGreaterThan(1)
  expect(new Set(ready.map(({ status }) => status))).toEqual(new Set([503]))
  for (const seen of [alive, ollama]) {
    expect(seen.length).toBeGreaterThan(1)
    expect(new Set(seen.map(({ status }) => status))).toEqual(new Set([200]))
  }
  expect([...ready, ...alive, ...ollama].filter(({ closes }) => !closes)).toEqual([])
  // The kernel had taken these, and nobody listens any more.
  expect(await before[0].say('/healthz')).toStartWith('HTTP/1.1 200 ')
  expect(await before[1].say('/api/version')).toStartWith('HTTP/1.1 200 ')
  await stopping
})

test('§33: several processes say it together, and end one after the other', async () => {
  const { gateway, server } = await startProcesses({ env: longDrain })
  const { url } = gateway
  const { pids } = server
  const before = await Promise.all(Array.from({ length: 8 }, () => silent(url)))
  const ending = Promise.withResolvers<void>()
  const stopping = gateway.stop()
  const watching = Promise.all([
    watched(url, '/readyz', ({ status }) => status === 503 && ending.resolve()),
    watched(url, '/healthz'),
  ])
  await ending.promise
  // While they end: of processes that end one after the other the first may be gone for long when the last one is.
  const asked = before.map((quiet) => quiet.say('/healthz'))
  const [ready, alive] = await watching
  // The first looks may come before each process has heard the order.
  const told = ready.findLastIndex(({ status }) => status === 200) + 1
  expect(ready.length - told).toBeGreaterThan(1)
  expect(new Set(ready.slice(told).map(({ status }) => status))).toEqual(new Set([503]))
  expect(alive.filter(({ status }) => status !== 200)).toEqual([])
  for (const text of await Promise.all(asked)) expect(text).toStartWith('HTTP/1.1 200 ')
  await stopping
  expect(pids.filter(isAlive)).toEqual([])
})

test('§33: a replacement says nothing of an end, and answers connections that its old processes had taken', async () => {
  const { gateway, server } = await startProcesses()
  undo.push(() => gateway.stop())
  const { url } = gateway
  let replaced = false
  const looking = (async () => {
    const said = new Set<string>()
    while (!replaced) said.add((await look(url, '/readyz'))?.text ?? 'refused')
    return said
  })()
  const replacing = server.replace?.()
  const said: Promise<string>[] = []
  const asking = (async () => {
    while (!replaced) {
      const quiet = await silent(url)
      // Whichever process has it may be closing its listener by then.
      for (let turns = Math.random() * 5; turns > 0; turns--) await look(url, '/healthz')
      said.push(quiet.say('/healthz'))
    }
  })()
  await replacing
  replaced = true
  await asking
  // A database that a busy machine keeps waiting is no end.
  const said503 = [...(await looking)].filter((text) => !/"(?:ready|database_away)"/.test(text))
  expect(said503).toEqual([])
  for (const text of await Promise.all(said)) expect(text).toStartWith('HTTP/1.1 200 ')
  expect(said.length).toBeGreaterThan(10)
})

test('a second signal ends a gateway at once, however long it would drain', async () => {
  let child: GatewayProcess | null = null
  const launch = async (env: Readonly<Record<string, string>>) => {
    const spawned = await spawnGateway(env)
    child = spawned
    return { url: spawned.url, stop: spawned.kill }
  }
  const gateway = await gatewayOf(() => startTestGateway({ env: { SVC_DRAIN_MS: '600000' }, launch }))
  const { pid } = child as unknown as GatewayProcess
  process.kill(pid, 'SIGTERM')
  await waitUntil('the drain', async () => (await look(gateway.url, '/readyz'))?.status === 503)
  // What comes within a second is one signal.
  await waitUntil('the end', () => {
    if (isAlive(pid)) process.kill(pid, 'SIGTERM')
    return !isAlive(pid)
  })
})
