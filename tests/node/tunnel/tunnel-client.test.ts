import { afterEach, describe, expect, test } from 'bun:test'
import { createTunnelTransport } from '../../../src/actors/tunnels/tunnel-transport.ts'
import type { Tunnels } from '../../../src/actors/tunnels/tunnels.ts'
import type { NodeTunnel, TunnelLogEvent } from '../../../src/node/tunnel/tunnel-client.ts'
import { tcpSwitch } from '../../support/gateways/tcp-switch.ts'
import { dial, get, nextOpen, nodeId, post, startTunnelServer } from '../../support/nodes/tunnel-pair.ts'
import { waitLimitMs } from '../../support/run/limits.ts'
import { turn } from '../../support/run/turn.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

function server(...options: Parameters<typeof startTunnelServer>) {
  const started = startTunnelServer(...options)
  cleanups.push(() => started.stop())
  return started
}

function node(...options: Parameters<typeof dial>): NodeTunnel {
  const tunnel = dial(...options)
  cleanups.push(() => tunnel.stop(0))
  return tunnel
}

async function switchTo(port: number | undefined) {
  const made = await tcpSwitch(port ?? 0)
  cleanups.push(made.stop)
  return { ...made, made, url: `ws://127.0.0.1:${made.port}/` }
}

const closed = (tunnels: Tunnels) =>
  new Promise<void>((done) => {
    tunnels.subscribe({ onClose: () => done() })
  })
const ok = async () => new Response('ok')
const over = (tunnels: Tunnels) => createTunnelTransport(() => tunnels.session(nodeId))

describe('§22: redial', () => {
  test('a cut tunnel comes back by itself and carries requests again', async () => {
    const gateway = server()
    const way = await switchTo(gateway.server.port)
    node(way.url, ok, { random: () => 0 })
    await nextOpen(gateway.tunnels)
    for (let i = 0; i < 3; i++) {
      const back = nextOpen(gateway.tunnels)
      way.cut()
      await back
      expect(await (await over(gateway.tunnels).fetch('/', get)).text(10)).toBe('ok')
    }
  })

  test('a gateway that is away is tried for as long as it takes', async () => {
    const way = await switchTo(0)
    const events: TunnelLogEvent[] = []
    const tunnel = node(way.url, ok, { random: () => 0, log: (event) => events.push(event) })
    await waitUntil('many tries', () => way.connections() > 20)
    expect(new Set(events)).toEqual(new Set(['tunnel_not_opened']))
    expect(tunnel.connected()).toBe(false)
    const gateway = server()
    way.made.target = gateway.server.port ?? 0
    await tunnel.whenConnected()
    await waitUntil('the tunnel', () => gateway.tunnels.session(nodeId) !== null)
    expect(await (await over(gateway.tunnels).fetch('/', get)).text(10)).toBe('ok')
  })

  test('the delay grows no further than its bound', async () => {
    const way = await switchTo(0)
    // Would be half a minute and more without the bound.
    node(way.url, ok, { random: () => 0.999, redialMsMax: 5 })
    await waitUntil('many tries', () => way.connections() > 10)
  })

  test('the bound of the wait doubles with each failure in a row, up to half a minute', async () => {
    const clock = new VirtualClock()
    const way = await switchTo(0)
    // What looks for silence is set, too, and far away.
    node(way.url, ok, { random: () => 1, silentMsMax: 1e9, clock })
    const waits: number[] = []
    for (let tries = 0; tries < 9; tries++) {
      await waitUntil('the next try is set', () => clock.waits.length === 2)
      const [wait = 0] = clock.waits
      waits.push(wait)
      await clock.pass(wait)
    }
    expect(waits).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  })

  test('a stopped node dials no more', async () => {
    const way = await switchTo(0)
    const tunnel = node(way.url, ok, { random: () => 0 })
    await waitUntil('a try', () => way.connections() > 0)
    await tunnel.stop(0)
    const gateway = server()
    way.made.target = gateway.server.port ?? 0
    const before = way.connections()
    // Another node that redials as fast tries often meanwhile.
    const other = await switchTo(0)
    node(other.url, ok, { random: () => 0 })
    await waitUntil('tries of another', () => other.connections() > 10)
    expect(way.connections()).toBeLessThanOrEqual(before + 1)
    expect(gateway.tunnels.counts().tunnels).toBe(0)
  })
})

describe('§22: liveness', () => {
  test('pings keep an idle tunnel; a silent one is dead on both ends and dialled anew', async () => {
    const silentMsMax = 2_000
    const gateway = server({ pingEveryMs: 20, silentMsMax })
    const way = await switchTo(gateway.server.port)
    const events: TunnelLogEvent[] = []
    const tunnel = node(way.url, ok, { random: () => 0, silentMsMax, log: (event) => events.push(event) })
    await tunnel.whenConnected()
    // A tunnel without pings that is opened later dies of its silence; the older one is kept.
    const unpinged = server({ pingEveryMs: 10 * waitLimitMs, silentMsMax })
    const others: TunnelLogEvent[] = []
    node(unpinged.url, ok, { random: () => 0, silentMsMax, log: (event) => others.push(event) })
    await waitUntil('the other tunnel is dead', () => others.includes('tunnel_closed'))
    expect(events).toEqual(['tunnel_opened'])
    const back = nextOpen(gateway.tunnels)
    way.silence()
    await back
    await waitUntil('the silent one is closed here, too', () => gateway.tunnels.counts().tunnels === 1)
    expect(await (await over(gateway.tunnels).fetch('/', get)).text(10)).toBe('ok')
    expect(events).toContain('tunnel_closed')
  })
})

describe('§22: the newest tunnel of a node takes new streams', () => {
  test('what runs on the older one ends there; then it is closed', async () => {
    const gateway = server()
    const release = Promise.withResolvers<void>()
    node(gateway.url, async (request) => {
      if (new URL(request.url).pathname === '/slow') await release.promise
      return new Response('older')
    })
    await nextOpen(gateway.tunnels)
    const slow = over(gateway.tunnels).fetch('/slow', get)
    const second = nextOpen(gateway.tunnels)
    node(gateway.url, async () => new Response('newer'))
    await second
    expect(gateway.tunnels.counts()).toEqual({ tunnels: 2, streams: 1 })
    expect(await (await over(gateway.tunnels).fetch('/', get)).text(10)).toBe('newer')
    release.resolve()
    expect(await (await slow).text(10)).toBe('older')
    await waitUntil('the older one is closed', () => gateway.tunnels.counts().tunnels === 1)
    expect(await (await over(gateway.tunnels).fetch('/', get)).text(10)).toBe('newer')
  })

  test('revoked: every tunnel of the node ends at once', async () => {
    const gateway = server()
    const aborted = Promise.withResolvers<void>()
    const tunnel = node(gateway.url, (request) => {
      request.signal.addEventListener('abort', () => aborted.resolve())
      return new Promise<Response>(() => {})
    })
    await tunnel.whenConnected()
    await waitUntil('the tunnel', () => gateway.tunnels.session(nodeId) !== null)
    const call = over(gateway.tunnels)
      .fetch('/', get)
      .catch((error: unknown) => error)
    gateway.tunnels.close(nodeId, 'revoked')
    expect(await call).toMatchObject({ failure: 'closed' })
    await aborted.promise
  })
})

describe('§22: GOAWAY', () => {
  test('the new tunnel is up before the old one ends, and no request fails', async () => {
    const [first, second] = [server(), server()]
    const way = await switchTo(first.server.port)
    let served = 0
    const tunnel = node(way.url, async (request) => {
      const text = await request.text()
      await turn()
      served++
      return new Response(text)
    })
    await nextOpen(first.tunnels)
    const transport = createTunnelTransport(() => second.tunnels.session(nodeId) ?? first.tunnels.session(nodeId))
    let running = true
    let connectedAlways = true
    const worker = async (n: number) => {
      for (let i = 0; running; i++) {
        const body = `${n}:${i}`
        expect(await (await transport.fetch('/', post(body))).text(100)).toBe(body)
        connectedAlways &&= tunnel.connected()
      }
    }
    const workers = Array.from({ length: 20 }, (_, n) => worker(n))
    await waitUntil('work', () => served > 100)
    way.made.target = second.server.port ?? 0
    const left = closed(first.tunnels)
    await first.tunnels.handOver(waitLimitMs)
    await left
    expect(first.tunnels.counts()).toEqual({ tunnels: 0, streams: 0 })
    const before = served
    await waitUntil('work over the new tunnel', () => served > before + 100)
    running = false
    await Promise.all(workers)
    expect(connectedAlways).toBe(true)
  })

  test('without another gateway the old tunnel serves on, as long as it lasts', async () => {
    const gateway = server()
    const tunnel = node(gateway.url, ok, { random: () => 0 })
    await tunnel.whenConnected()
    await waitUntil('the tunnel', () => gateway.tunnels.session(nodeId) !== null)
    await gateway.tunnels.handOver(50)
    expect(await (await over(gateway.tunnels).fetch('/', get)).text(10)).toBe('ok')
    expect(tunnel.connected()).toBe(true)
  })

  test('a node that stops ends what runs first', async () => {
    const gateway = server()
    const release = Promise.withResolvers<void>()
    const arrived = Promise.withResolvers<void>()
    const tunnel = node(gateway.url, async () => {
      arrived.resolve()
      await release.promise
      return new Response('done')
    })
    await tunnel.whenConnected()
    await waitUntil('the tunnel', () => gateway.tunnels.session(nodeId) !== null)
    const call = over(gateway.tunnels).fetch('/', get)
    await arrived.promise
    const stopped = tunnel.stop(waitLimitMs)
    await waitUntil('no new requests', () => gateway.tunnels.session(nodeId) === null)
    release.resolve()
    expect(await (await call).text(10)).toBe('done')
    await stopped
    expect(gateway.tunnels.counts().tunnels).toBe(0)
  })
})

test('§22: the status is told after each opening and when it changes', async () => {
  const gateway = server()
  const told: string[] = []
  gateway.tunnels.subscribe({ onStatus: (id, text) => told.push(`${id} ${text}`) })
  let slots = 1
  const tunnel = node(gateway.url, ok, { status: () => JSON.stringify({ slots }) })
  await waitUntil('the first', () => told.length === 1)
  slots = 2
  tunnel.statusChanged()
  await waitUntil('the second', () => told.length === 2)
  expect(told).toEqual([`${nodeId} {"slots":1}`, `${nodeId} {"slots":2}`])
})
