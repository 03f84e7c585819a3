import { afterEach, expect, test } from 'bun:test'
import { ChangeFeed } from '../../../src/actors/durable/change-feed.ts'
import { createDialledTransport } from '../../../src/actors/tunnels/dialled-transport.ts'
import { createPeers } from '../../../src/actors/tunnels/peer-transport.ts'
import { movingMs, TunnelOwners } from '../../../src/actors/tunnels/tunnel-owners.ts'
import { type Clock, systemClock } from '../../../src/clock.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { claimTunnel, releaseTunnel, tunnelOwnerRows } from '../../../src/db/queries/pool/tunnels.ts'
import type { NodeId } from '../../../src/ids.ts'
import type { TunnelEnd } from '../../../src/protocol/tunnel/tunnel-session.ts'
import { tcpSwitch } from '../../support/gateways/tcp-switch.ts'
import { dial, nodeId, quiet, startTunnelServer } from '../../support/nodes/tunnel-pair.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitLimitMs } from '../../support/run/limits.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
  await database.sql`delete from tunnel_owners`
})

/** One gateway of the pool, as far as tunnels go. */
async function replica(name: string, clock: Clock = systemClock, peerUrl: string | null = `http://${name}.example`) {
  const opened = openDatabase({ url: database.url, connectionsMax: 2 })
  const feed = new ChangeFeed({ ...opened, log: quiet, pollMs: 50 })
  const server = startTunnelServer()
  const options = { db: opened.db, feed, log: quiet, tunnels: server.tunnels, replicaId: name, peerUrl, clock }
  const owners: TunnelOwners = new TunnelOwners(options)
  await feed.start()
  await owners.start()
  cleanups.push(async () => {
    await server.stop()
    await owners.stop()
    await feed.stop()
    await opened.close()
  })
  return { ...server, owners, loseDatabase: () => opened.close() }
}

const join = (url: string) => {
  const tunnel = dial(url, async () => new Response('ok'))
  cleanups.push(() => tunnel.stop(0))
  return tunnel
}

test('§26: a tunnel is known to the other gateways while it is there, and to nobody afterwards', async () => {
  const [a, b] = [await replica('a'), await replica('b')]
  const told: string[] = []
  b.owners.subscribe((node, held) => told.push(`${node} ${held}`))
  const tunnel = join(a.url)
  await waitUntil('the row', () => b.owners.owner(nodeId) !== null)
  expect(b.owners.owner(nodeId)).toEqual({ replicaId: 'a', peerUrl: 'http://a.example' })
  // Its own tunnels are no business of its table of others.
  expect(a.owners.owner(nodeId)).toBeNull()
  a.tunnels.close(nodeId, 'revoked')
  await tunnel.stop(0)
  await waitUntil('the row is gone', () => b.owners.owner(nodeId) === null)
  expect(told).toEqual([`${nodeId} true`, `${nodeId} false`])
})

test('§26: the newest tunnel owns the node; what the older one does afterwards changes nothing', async () => {
  const [a, b, c] = [await replica('a'), await replica('b'), await replica('c')]
  const first = join(a.url)
  await waitUntil('a holds it', () => c.owners.owner(nodeId)?.replicaId === 'a')
  join(b.url)
  await waitUntil('b holds it', () => c.owners.owner(nodeId)?.replicaId === 'b')
  const closed = new Promise<void>((done) => a.tunnels.subscribe({ onClose: () => done() }))
  await first.stop(0)
  await closed
  await a.owners.stop()
  await c.owners.refresh()
  expect(c.owners.owner(nodeId)?.replicaId).toBe('b')
})

test('§26: a gateway that died without a word holds nothing once its lease has run out', async () => {
  const b = await replica('b')
  const other: NodeId = 'node_0002'
  const dead = { nodeId: other, replicaId: 'dead', peerUrl: 'http://dead.example' }
  // On a busy machine a short lease may be over before anybody has heard of it.
  let leaseMs = 200
  await waitUntil('it is known', async () => {
    leaseMs *= 2
    await claimTunnel(database.db, dead, leaseMs)
    await b.owners.refresh()
    return b.owners.owner(other)?.replicaId === 'dead'
  })
  await waitUntil('it is forgotten', () => b.owners.owner(other) === null)
  // Who forgets it does not wait until the row is gone.
  await waitUntil('its row is gone', async () => (await tunnelOwnerRows(database.db)).length === 0)
})

test('§26: a lease is renewed for as long as the tunnel lasts: one of 30 s every 10 s', async () => {
  const other: NodeId = 'node_0002'
  const clock = new VirtualClock()
  const [a, b] = [await replica('a', clock), await replica('b')]
  join(a.url)
  await waitUntil('it is known', () => b.owners.owner(nodeId) !== null)
  for (let renewals = 0; renewals < 3; renewals++) {
    await database.sql`update tunnel_owners set lease_until = now() + interval '15 seconds'`
    // Old rows go as the last of a renewal, so that none is still written when the next one is looked for.
    await claimTunnel(database.db, { nodeId: other, replicaId: 'gone', peerUrl: null }, -600_000)
    await clock.pass(10_000)
    await waitUntil('a renewal', async () => ((await tunnelOwnerRows(database.db))[0]?.leftMs ?? 0) > 15_000)
    await waitUntil('its end', async () => {
      const old = await database.sql`select 1 from tunnel_owners where node_id = ${other}`
      return old.length === 0
    })
  }
  expect((await tunnelOwnerRows(database.db)).map(({ replicaId }) => replicaId)).toEqual(['a'])
  expect(b.owners.owner(nodeId)?.replicaId).toBe('a')
})

test('§26: a node that was asked to move counts as here until it had time to be elsewhere', async () => {
  const clock = new VirtualClock()
  const a = await replica('a', clock)
  const elsewhere = startTunnelServer()
  const way = await tcpSwitch(a.server.port ?? 0)
  cleanups.push(() => elsewhere.stop(), way.stop)
  join(`ws://127.0.0.1:${way.port}/`)
  const told: string[] = []
  a.owners.subscribe((node, held) => told.push(`${node} ${held}`))
  const rows = async () => (await tunnelOwnerRows(database.db)).map(({ replicaId }) => replicaId)
  await waitUntil('the row', async () => (await rows()).length === 1)
  way.target = elsewhere.server.port ?? 0
  await a.tunnels.handOver(waitLimitMs)
  await waitUntil('no tunnel is left', () => a.tunnels.counts().tunnels === 0)
  await clock.pass(movingMs - 1)
  expect([await rows(), a.owners.isMoving(nodeId), told]).toEqual([['a'], true, []])
  await clock.pass(1)
  await waitUntil('the row is gone', async () => (await rows()).length === 0)
  expect([a.owners.isMoving(nodeId), told]).toEqual([false, [`${nodeId} false`]])
})

/** A node that has left this gateway in good order and is not elsewhere yet. */
async function leave(a: Awaited<ReturnType<typeof replica>>) {
  const elsewhere = startTunnelServer()
  const way = await tcpSwitch(a.server.port ?? 0)
  cleanups.push(() => elsewhere.stop(), way.stop)
  const tunnel = join(`ws://127.0.0.1:${way.port}/`)
  await tunnel.whenConnected()
  way.target = elsewhere.server.port ?? 0
  tunnel.dialAnew()
  await waitUntil('it has left', () => a.tunnels.counts().tunnels === 0)
  return { tunnel, way }
}

test('§26: a node that has arrived at another gateway is on its way no more, and is gone when that one loses it', async () => {
  const a = await replica('a', new VirtualClock())
  await leave(a)
  expect(a.owners.isMoving(nodeId)).toBe(true)
  const told: string[] = []
  a.owners.subscribe((node, held) => told.push(`${node} ${held}`))
  const epoch = await claimTunnel(database.db, { nodeId, replicaId: 'b', peerUrl: 'http://b.example' }, 60_000)
  await waitUntil('it is known', () => a.owners.owner(nodeId) !== null)
  expect(a.owners.isMoving(nodeId)).toBe(false)
  await releaseTunnel(database.db, nodeId, epoch)
  await waitUntil('it is gone', () => told.length === 2)
  expect(told).toEqual([`${nodeId} true`, `${nodeId} false`])
})

test('§26: a node that is back at the gateway that it left is on its way no more, and leaves no claim behind at the end', async () => {
  const a = await replica('a', new VirtualClock())
  await leave(a)
  join(a.url)
  await waitUntil('it is here', () => a.tunnels.counts().tunnels === 1)
  expect(a.owners.isMoving(nodeId)).toBe(false)
  await waitUntil('its claim', async () => (await tunnelOwnerRows(database.db)).length === 1)
  await a.owners.stop()
  expect(await tunnelOwnerRows(database.db)).toEqual([])
})

test('§26: a node whose next tunnel is lost before it is claimed leaves no claim behind', async () => {
  const a = await replica('a', new VirtualClock())
  await leave(a)
  // In the moment in which it opens, before anything is written.
  a.tunnels.subscribe({ onOpen: () => a.tunnels.close(nodeId, 'revoked') })
  const closed = new Promise<void>((done) => a.tunnels.subscribe({ onClose: () => done() }))
  join(a.url)
  await closed
  await a.owners.stop()
  expect(await tunnelOwnerRows(database.db)).toEqual([])
})

test('§26: a node that has been elsewhere while its last request here ended is not on its way', async () => {
  const a = await replica('a', new VirtualClock())
  const tunnel = join(a.url)
  await tunnel.whenConnected()
  await waitUntil('its claim', async () => (await tunnelOwnerRows(database.db)).length === 1)
  await claimTunnel(database.db, { nodeId, replicaId: 'b', peerUrl: 'http://b.example' }, 60_000)
  await waitUntil('it is known', () => a.owners.owner(nodeId) !== null)
  const closed = new Promise<TunnelEnd>((done) => a.tunnels.subscribe({ onClose: (_, end) => done(end) }))
  await tunnel.stop(0)
  expect([await closed, a.owners.isMoving(nodeId)]).toEqual(['finished', false])
  await a.owners.stop()
  expect((await tunnelOwnerRows(database.db)).map(({ replicaId }) => replicaId)).toEqual(['b'])
})

test('§26: a node that left is told as gone, though the gateway without a database still remembers an owner whose lease is over', async () => {
  const clock = new VirtualClock()
  const a = await replica('a', clock)
  let leaseMs = 200
  await waitUntil('it is known', async () => {
    leaseMs *= 2
    await claimTunnel(database.db, { nodeId, replicaId: 'b', peerUrl: 'http://b.example' }, leaseMs)
    await a.owners.refresh()
    return a.owners.owner(nodeId) !== null
  })
  await a.loseDatabase()
  const told: string[] = []
  a.owners.subscribe((node, held) => told.push(`${node} ${held}`))
  await leave(a)
  await waitUntil('the lease is over', () => a.owners.owner(nodeId) === null)
  await clock.pass(movingMs)
  expect(told).toEqual([`${nodeId} false`])
})

test('§26: a node that leaves the only gateway is on its way to no other one', async () => {
  const a = await replica('a', new VirtualClock(), null)
  await leave(a)
  expect(a.owners.isMoving(nodeId)).toBe(false)
  await waitUntil('its row is gone', async () => (await tunnelOwnerRows(database.db)).length === 0)
})

test('§26: a request at the gateway that a node has just left waits until the node has a tunnel again', async () => {
  const a = await replica('a')
  const peers = createPeers({ secret: null, connectTimeoutMs: waitLimitMs })
  cleanups.push(peers.close)
  const transport = createDialledTransport(nodeId, { tunnels: a.tunnels, owners: a.owners, peers })
  const { tunnel, way } = await leave(a)
  // No claim of another gateway comes meanwhile.
  const asked = transport.fetch('/x', { method: 'GET', signal: new AbortController().signal })
  way.target = a.server.port ?? 0
  tunnel.dialAnew()
  expect(await (await asked).text(100)).toBe('ok')
})

test('§26: a release is fenced by its epoch', async () => {
  const owner = { nodeId, replicaId: 'a', peerUrl: null }
  const early = await claimTunnel(database.db, owner, 10_000)
  const late = await claimTunnel(database.db, owner, 10_000)
  expect(late).toBeGreaterThan(early)
  await releaseTunnel(database.db, nodeId, early)
  expect((await tunnelOwnerRows(database.db)).map(({ epoch }) => epoch)).toEqual([late])
  await releaseTunnel(database.db, nodeId, late)
  expect(await tunnelOwnerRows(database.db)).toEqual([])
})
