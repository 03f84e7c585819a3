import { afterEach, describe, expect, test } from 'bun:test'
import { type AddressInfo, createServer } from 'node:net'
import { KvEvents } from '../../../src/node/kv-events/kv-events.ts'
import { PackedFault, unpacked } from '../../../src/node/kv-events/msgpack.ts'
import { frameBytesMax, greeting, ready } from '../../../src/node/kv-events/zmtp.ts'
import { seeded } from '../../machines/rules/routes.ts'
import { waitUntil } from '../../support/run/wait-until.ts'
import { type KvForm, KvServer, packed } from './publisher.ts'

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const clean of cleanups.splice(0).reverse()) clean()
})

function serverOf(form: KvForm, capacity = 64, replayed?: number): KvServer {
  const server = new KvServer(form, capacity, replayed)
  cleanups.push(() => server.stop())
  return server
}

function follow(server: KvServer, replay = true): KvEvents {
  const { port, replay_port } = server.endpoints
  const at = (one: number) => ({ hostname: '127.0.0.1', port: one })
  const events = new KvEvents({
    events: at(port),
    replay: replay ? at(replay_port) : null,
    backoff: { firstMs: 5, maxMs: 5 },
    replayPauseMs: 0,
  })
  cleanups.push(() => events.stop())
  return events
}

const isTrue = (events: KvEvents, server: KvServer) =>
  events.blocks.count() !== null && !events.blocks.keys().symmetricDifference(server.truth).size

const random = seeded(7)
const fresh = () => BigInt(Math.floor(random() * 2 ** 53)) * 1_024n + 5n
const prompt = (blocks: number) => Array.from({ length: blocks }, fresh)

describe('§37 events of caches', () => {
  for (const form of ['vllm', 'vllm, maps', 'sglang'] as const) {
    test(`what ${form} publishes makes a view that equals the truth, from the first batch on`, async () => {
      // Two conversations that grow fit into it, and what others leave behind does not.
      const server = serverOf(form, 150)
      server.read(prompt(10))
      const events = follow(server)
      await waitUntil('what was published before to be read', () => isTrue(events, server))
      expect(events.blocks.count()).toMatchObject({ full: false })
      const turns = [prompt(20), prompt(20)]
      for (let turn = 0; turn < 30; turn++) {
        const grown = [...(turns[turn % 2] ?? []), ...prompt(3)]
        turns[turn % 2] = grown
        server.read(grown)
        server.read(prompt(5))
      }
      await waitUntil('all to be read', () => isTrue(events, server))
      const { tokens, full } = events.blocks.count() ?? { tokens: new Map(), full: null }
      expect({ tokens: tokens.get(''), full }).toEqual({ tokens: server.tokens(), full: server.full })
      server.clear()
      await waitUntil('it to be empty', () => isTrue(events, server))
      expect(events.blocks.count()?.full).toBe(false)
    })
  }

  test('batches that were lost are asked for again', async () => {
    const server = serverOf('vllm')
    const events = follow(server)
    await waitUntil('an empty cache to be known', () => events.blocks.count() !== null && server.subscribers === 1)
    for (let round = 0; round < 5; round++) {
      server.read(prompt(4))
      server.lose(2)
      server.read(prompt(30))
      server.read(prompt(30))
      server.read(prompt(1))
      await waitUntil('the view to be true again', () => isTrue(events, server))
    }
    expect(server.replays).toBeGreaterThan(1)
  })

  test('without a port for that, nothing is told until all that is unknown has been dropped', async () => {
    const server = serverOf('sglang', 100)
    const events = follow(server, false)
    await waitUntil('it to listen', () => server.subscribers === 1)
    server.read(prompt(5))
    await waitUntil('the first batch to be read', () => isTrue(events, server))
    server.lose(1)
    server.read(prompt(50))
    server.read(prompt(1))
    await waitUntil('the gap to be seen', () => events.blocks.count() === null)
    for (let at = 0; at < 30; at++) server.read(prompt(10))
    await waitUntil('the view to be true again', () => isTrue(events, server))
  })

  test('what a replay no longer has counts as lost', async () => {
    const server = serverOf('vllm', 100, 3)
    for (let at = 0; at < 8; at++) server.read(prompt(10))
    const events = follow(server)
    await waitUntil('the rest to be read', () => events.blocks.keys().size > 0)
    expect(events.blocks.count()).toBeNull()
    for (let at = 0; at < 30; at++) server.read(prompt(10))
    await waitUntil('the view to be true again', () => isTrue(events, server))
  })

  test('a server that ends has no cache, and is followed again when it is back', async () => {
    const server = serverOf('vllm')
    server.read(prompt(10))
    const events = follow(server)
    await waitUntil('the view to be true', () => isTrue(events, server))
    server.cut()
    await waitUntil('it to be forgotten', () => events.blocks.count() === null)
    server.comeBack()
    await waitUntil('it to be followed again', () => isTrue(events, server))
    events.stop()
    await waitUntil('the end of the connection', () => server.subscribers === 0)
  })

  test('an adapter has blocks of its own', async () => {
    const server = serverOf('vllm')
    const events = follow(server)
    server.read(prompt(4))
    server.read(prompt(6), 'sql-lora')
    await waitUntil('the view to be true', () => isTrue(events, server))
    expect([...(events.blocks.count()?.tokens ?? [])]).toEqual([
      ['', 64],
      ['sql-lora', 96],
    ])
  })
})

describe('§37 hostile events', () => {
  const odd: readonly (readonly [string, Buffer])[] = [
    ['text', Buffer.from('no msgpack')],
    ['a list without an end', Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff])],
    ['a text that is longer than the message', Buffer.from([0xdb, 0xff, 0xff, 0xff, 0xff, 0x61])],
    ['lists in lists', Buffer.alloc(1_000, 0x91)],
    ['an extension', Buffer.from([0xc7, 0x01, 0x05, 0x00])],
    ['bytes behind the value', Buffer.from([0xc0, 0xc0])],
    ['nothing', Buffer.alloc(0)],
  ]
  for (const [name, bytes] of odd) {
    test(`${name}: refused, and the cache counts as unknown`, async () => {
      expect(() => unpacked(bytes)).toThrow(PackedFault)
      const server = serverOf('vllm')
      const events = follow(server, false)
      await waitUntil('it to listen', () => server.subscribers === 1)
      server.read(prompt(3))
      await waitUntil('the view to be true', () => isTrue(events, server))
      server.publishBytes(bytes)
      await waitUntil('it to be unknown', () => events.blocks.count() === null)
      expect(events.blocks.keys().size).toBe(0)
    })
  }

  test('events of other shapes are passed over', async () => {
    const server = serverOf('vllm')
    const events = follow(server, false)
    await waitUntil('it to listen', () => server.subscribers === 1)
    const shapes = [
      null,
      7,
      ['BlockStored'],
      ['BlockStored', 'x', null, [], 16],
      ['BlockStored', [1, 'y', null], null, [], 0],
      ['BlockStored', [1], null, [], 16, null, 'CPU'],
      ['BlockStored', [2], null, [], 16, null, 'GPU', null, null, 1],
      { type: 5 },
      ['Unheard', [1]],
      ['BlockRemoved', [9]],
    ]
    server.publishBytes(packed([1, shapes, 0]))
    server.publishBytes(packed('no batch'))
    server.publishBytes(packed([1, [['BlockStored', [3], null, [], 16, null, 'GPU']], 0]))
    await waitUntil('the last one to be read', () => events.blocks.keys().has(3))
    expect([...events.blocks.keys()]).toEqual([3])
  })

  test('a frame beyond the bound, or a peer that speaks something else, ends the connection', async () => {
    const server = serverOf('vllm')
    follow(server, false)
    await waitUntil('it to listen', () => server.subscribers === 1)
    const head = Buffer.alloc(9, 0x02)
    head.writeBigUInt64BE(BigInt(frameBytesMax + 1), 1)
    server.sendRaw(head)
    // It comes back within 5 ms.
    await waitUntil('it to leave and come back', () => server.subscriptions === 2 && server.subscribers === 1)
    const asked: number[] = []
    const web = Bun.listen({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        open: (socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
        data: () => {},
        close: () => void asked.push(1),
      },
    })
    cleanups.push(() => web.stop(true))
    const at = { hostname: '127.0.0.1', port: web.port }
    const events = new KvEvents({ events: at, replay: at, backoff: { firstMs: 5, maxMs: 5 } })
    cleanups.push(() => events.stop())
    await waitUntil('it to leave twice', () => asked.length >= 2)
    expect(events.blocks.count()).toBeNull()
  })

  test('a peer that asks and reads none of its answers is left', async () => {
    const ping = Buffer.from([0x04, 7, ...Buffer.from('\x04PING\0\0', 'latin1')])
    const pings = Buffer.concat(Array.from({ length: 8_192 }, () => ping))
    const left = Promise.withResolvers<void>()
    const peer = createServer({ pauseOnConnect: true }, (socket) => {
      socket.on('error', () => {})
      socket.on('close', () => left.resolve())
      socket.write(Buffer.concat([greeting(), ready('PUB')]))
      const more = () => {
        while (!socket.destroyed && socket.write(pings));
      }
      socket.on('drain', more)
      more()
    })
    await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', resolve))
    const { port } = peer.address() as AddressInfo
    const events = new KvEvents({ events: { hostname: '127.0.0.1', port }, replay: null })
    cleanups.push(
      () => events.stop(),
      () => peer.close(),
    )
    await left.promise
  })
})
