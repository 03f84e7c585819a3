import { expect, test } from 'bun:test'
import { createConnection } from 'node:net'
import { createActor } from 'xstate'
import { consoleQueueBytesMax } from '../../../src/actors/console/console-client.ts'
import {
  ConsoleFeed,
  type ConsoleFeedOptions,
  transitionsPerEventMax,
} from '../../../src/actors/console/console-feed.ts'
import { createInspector, type Inspector } from '../../../src/actors/telemetry/inspect.ts'
import { createLog } from '../../../src/log.ts'
import { nodeMachine } from '../../../src/machines/charts/node.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const thresholds = { staleAfterMs: 15_000, offlineAfterMs: 45_000, holdDownMs: 300_000, drainTimeoutMs: 300_000 }
const log = createLog('silent', () => {})
const silentTraffic = { points: () => [], subscribe: () => () => {}, start: () => {}, stop: () => {} }
const quiet = { role: 'viewer', name: null, isGone: () => false, dropped: () => {}, ended: () => {} } as const

function feedOn(inspector: Inspector, more: Partial<ConsoleFeedOptions> = {}) {
  const options = { inspector, traffic: silentTraffic, nodes: () => [], durable: {}, log }
  return new ConsoleFeed({ ...options, ...more })
}
function readerOf(stream: ReadableStream<Uint8Array> | null) {
  if (stream === null) throw new Error('refused')
  return stream.getReader()
}
function moveOften(inspector: Inspector, times: number): void {
  const actor = createActor(nodeMachine, { id: 'node_a', input: thresholds, inspect: inspector.inspect }).start()
  for (let at = 0; at < times; at++) actor.send({ type: 'poll.answered', modelsReady: at % 2, at })
  actor.stop()
}

test('§23: what moves is encoded once, however many consoles are open', async () => {
  const inspector = createInspector(log)
  const feed = feedOn(inspector)
  const readers = Array.from({ length: 50 }, () => readerOf(feed.open(quiet)))
  for (const reader of readers) await reader.read()
  moveOften(inspector, 40)
  const chunks = await Promise.all(readers.map((reader) => reader.read()))
  expect(new Set(chunks.map(({ value }) => value)).size).toBe(1)
  const [, data = ''] = /^event: transitions\ndata: (.*)\n\n$/.exec(new TextDecoder().decode(chunks[0]?.value)) ?? []
  expect((JSON.parse(data) as { transitions: unknown[] }).transitions).toHaveLength(41)
  feed.stop()
})

test('§23: one event tells a bounded number of transitions and counts the rest', async () => {
  const inspector = createInspector(log)
  const feed = feedOn(inspector)
  const reader = readerOf(feed.open(quiet))
  await reader.read()
  moveOften(inspector, transitionsPerEventMax + 99)
  const text = new TextDecoder().decode((await reader.read()).value)
  expect(text).toContain('"skipped":100}')
  feed.stop()
})

test('§23: a console that does not read is dropped with a word; the others go on, and its queue was bounded', async () => {
  const inspector = createInspector(log)
  const feed = feedOn(inspector)
  let [dropped, ended] = [0, 0]
  const slow = readerOf(feed.open({ ...quiet, dropped: () => dropped++, ended: () => ended++ }))
  const well = readerOf(feed.open(quiet))
  let heard = 0
  const reading = (async () => {
    for (let next = await well.read(); !next.done; next = await well.read()) heard += next.value.byteLength
  })()
  await waitUntil('the slow console is dropped', () => {
    moveOften(inspector, transitionsPerEventMax)
    return dropped === 1
  })
  expect(feed.size).toBe(1)
  let waiting = 0
  let last = ''
  for (let next = await slow.read(); !next.done; next = await slow.read()) {
    waiting += next.value.byteLength
    last = new TextDecoder().decode(next.value)
  }
  expect(last).toBe('event: end\ndata: {"reason":"slow_client"}\n\n')
  expect(waiting).toBeLessThan(2 * consoleQueueBytesMax)
  const before = heard
  moveOften(inspector, 2)
  await waitUntil('the other one hears more', () => heard > before)
  feed.stop()
  await reading
  await slow.cancel()
  expect([dropped, ended]).toEqual([1, 1])
})

test('§23: rows that rest count as instances of their state, beside those that run', async () => {
  let rows = { queued: 2 } as Record<string, number>
  const feed = feedOn(createInspector(log), { durable: { 'private-job': { ended: [], count: async () => rows } } })
  const reader = readerOf(feed.open(quiet))
  const heard = async () => new TextDecoder().decode((await reader.read()).value)
  await heard()
  const counts = (queued: number) =>
    `"machines":[{"machine":"private-job","states":[{"state":"queued","live":${queued},"entered":0}]}]`
  expect(await heard()).toContain(counts(2))
  rows = { queued: 3 }
  expect(await heard()).toContain(counts(3))
  feed.stop()
})

test('§23: counts that come when the last console has left do not silence the next one', async () => {
  const inspector = createInspector(log)
  const asked: ((rows: Record<string, number>) => void)[] = []
  const read = () => new Promise<Record<string, number>>((resolve) => asked.push(resolve))
  const feed = feedOn(inspector, { durable: { 'private-job': { ended: [], count: read } } })
  await readerOf(feed.open(quiet)).cancel()
  expect(feed.size).toBe(0)
  asked[0]?.({ queued: 2 })
  await Promise.resolve()
  const reader = readerOf(feed.open(quiet))
  const heard = async () => new TextDecoder().decode((await reader.read()).value)
  expect(await heard()).toContain('"machine":"private-job","states":[]')
  asked[1]?.({ queued: 3 })
  expect(await heard()).toContain('"machine":"private-job","states":[{"state":"queued","live":3,"entered":0}]')
  moveOften(inspector, 2)
  expect(await heard()).toStartWith('event: transitions\n')
  feed.stop()
})

test('without a console nothing is listened to and no timer runs', async () => {
  const inner = createInspector(log)
  let listeners = 0
  const inspector: Inspector = {
    ...inner,
    subscribe: (listener) => {
      listeners++
      const end = inner.subscribe(listener)
      return () => {
        listeners--
        end()
      }
    },
  }
  const feed = feedOn(inspector)
  expect(listeners).toBe(0)
  const readers = [readerOf(feed.open(quiet)), readerOf(feed.open(quiet))]
  expect(listeners).toBe(1)
  for (const reader of readers) await reader.cancel()
  expect([feed.size, listeners]).toEqual([0, 0])
})

test('§23: over the network: a console whose connection takes nothing is dropped, and its connection ends', async () => {
  const inspector = createInspector(log)
  const feed = feedOn(inspector)
  let dropped = false
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request, at) => {
      at.timeout(request, 0)
      const stream = feed.open({
        ...quiet,
        dropped: () => {
          dropped = true
          at.timeout(request, 1)
        },
        ended: () => {},
      })
      return new Response(stream)
    },
  })
  const socket = createConnection(server.port ?? 0, '127.0.0.1', () => {
    socket.write('GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
    socket.pause()
  })
  await waitUntil('the console is open', () => feed.size === 1)
  await waitUntil('it is dropped', () => {
    moveOften(inspector, transitionsPerEventMax)
    return dropped
  })
  expect(feed.size).toBe(0)
  await waitUntil('its connection to end', () => server.pendingRequests === 0)
  socket.destroy()
  await server.stop(true)
})

test('§23: a quiet feed says every 10 s that it is alive, while a console is open', async () => {
  const clock = new VirtualClock()
  const feed = feedOn(createInspector(log), { clock })
  const reader = readerOf(feed.open(quiet))
  await reader.read()
  const heard: string[] = []
  const reading = (async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      heard.push(`${clock.now()}: ${new TextDecoder().decode(next.value)}`)
    }
  })()
  await clock.pass(25_000)
  expect(heard).toEqual(['10000: : alive\n\n', '20000: : alive\n\n'])
  await reader.cancel()
  await reading
  expect(clock.waits).toEqual([])
})
