import { afterEach, describe, expect, test } from 'bun:test'
import type { CallOutcome, InFlightCall } from '../../../src/actors/pool/nodes/in-flight-call.ts'
import { PoolRouter } from '../../../src/actors/pool/pool-router.ts'
import { Ticket } from '../../../src/actors/pool/waiting-line.ts'
import { createInspector } from '../../../src/actors/telemetry/inspect.ts'
import { putModelEntry } from '../../../src/db/queries/pool/model-entries.ts'
import * as pool from '../../../src/db/queries/pool/pool.ts'
import { type FakeNode, type FakeNodeOptions, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { NodeId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { blockUnits } from '../../../src/machines/placement/blocks.ts'
import { noMatches } from '../../../src/machines/placement/cache-view.ts'
import type { Work } from '../../../src/machines/placement/reading.ts'
import { mergePolicies } from '../../../src/machines/rules/model-policy.ts'
import { type Placement, place } from '../../../src/machines/rules/placement.ts'
import type { NodeState, Route } from '../../../src/machines/rules/routing.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { settled, waitUntil } from '../../support/run/wait-until.ts'

/** Polls often; a node that a busy machine lets wait loses nothing by it. */
const fast = {
  SVC_POLL_INTERVAL_MS: '50',
  SVC_PROBE_TIMEOUT_MS: '10000',
  SVC_STALE_AFTER_MS: '60000',
  SVC_OFFLINE_AFTER_MS: '120000',
  SVC_EJECTION_MS: '60000',
  SVC_DRAIN_TIMEOUT_MS: '60000',
}
const policy = mergePolicies(null, { policy: null, nodeScope: null })

const cleanups: (() => unknown)[] = []

const database = await fixture(testDatabase({ connectionsMax: 8 }))
await database.sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values ('local', 'local', ${Buffer.from('hash')}, ${Buffer.from('sealed')})`

afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
  await database.sql`truncate nodes, model_entries cascade`
})

function fakeNode(options: FakeNodeOptions = {}): FakeNode {
  const node = startFakeNode(options)
  cleanups.push(() => node.stop())
  return node
}

const register = (node: { url: string }, change: Partial<pool.NewNode> = {}) =>
  pool.insertNode(database.db, {
    customerId: 'local',
    kind: 'runtime',
    name: 'n',
    url: node.url,
    visibility: 'private',
    privacyClass: 'private',
    nodeClass: 'default',
    ...change,
  })

interface Running {
  readonly router: PoolRouter
  readonly lines: string[]
  readonly states: (nodeId: string) => readonly string[]
  reload(): Promise<void>
}

async function startRouter(env: Record<string, string> = {}): Promise<Running> {
  const read = readConfig({ ...fast, ...env })
  if ('faults' in read) throw new Error(read.faults.join())
  const lines: string[] = []
  const log = createLog('debug', (text) => lines.push(text))
  const inspector = createInspector(log)
  const router = new PoolRouter({
    config: read.config,
    db: database.db,
    log,
    openSecret: (sealed) => Buffer.from(sealed).toString(),
    inspect: inspector.inspect,
  })
  cleanups.push(() => router.stop())
  const reload = async () => router.rowsChanged(await pool.readPool(database.db))
  await reload()
  await router.whenServing()
  const states = (nodeId: string) =>
    inspector
      .recent('node')
      .filter((entry) => entry.id === nodeId)
      .map((entry) => entry.to)
  return {
    router,
    reload,
    states,
    get lines() {
      log.flush()
      return lines
    },
  }
}

/** Resolves with the first table, the present one included, that `holds`. */
function untilTable(router: PoolRouter, holds: () => boolean): Promise<void> {
  const table = new Promise<void>((resolve) => {
    if (holds()) return resolve()
    const end = router.subscribe(() => {
      if (!holds()) return
      end()
      resolve()
    })
  })
  return settled('the table', table)
}

const stateOf = (router: PoolRouter, nodeId: NodeId): NodeState | undefined =>
  router.nodes().find((view) => view.nodeId === nodeId)?.state
const untilState = (router: PoolRouter, nodeId: NodeId, state: NodeState) =>
  untilTable(router, () => stateOf(router, nodeId) === state)

function placed(
  router: PoolRouter,
  modelId = 'fake-model',
  exclude: readonly string[] = [],
  nowMs = Date.now(),
): Placement {
  const request = {
    modelId,
    access: { customerId: 'local', policy },
    modality: 'chat' as const,
    byAgents: true,
    pin: null,
    profileId: null,
    ownOnly: false,
    unlisted: null,
    exclude: new Set(exclude),
    side: null,
    freeOnly: true,
    prompt: null,
    matches: noMatches,
    nowMs,
    queueWaitMs: null,
    cacheWaitMs: null,
    contextLeast: null,
    contextWanted: null,
    contextAbove: null,
  }
  return place(router.table(), request)
}

function routeFor(router: PoolRouter, modelId = 'fake-model', nowMs = Date.now()): Route {
  const placement = placed(router, modelId, [], nowMs)
  if (placement.kind !== 'placed') throw new Error(`not placed: ${JSON.stringify(placement)}`)
  return placement.route
}

/** A call that holds a slot until the test or the router ends it. */
function call(router: PoolRouter, route: Route) {
  const lost = Promise.withResolvers<void>()
  let open = true
  const release = (outcome: CallOutcome = { kind: 'neutral' }) => {
    if (!open) return
    open = false
    router.release(route, inFlight, outcome)
  }
  const inFlight: InFlightCall = {
    callPlace: -1,
    work: null,
    timed: false,
    nodeLost: () => {
      release()
      lost.resolve()
    },
  }
  router.claim(route, inFlight)
  return { release, lost: lost.promise }
}

const failed = (keyId: string): CallOutcome => ({ kind: 'failed', cause: 'server_error', keyId })
const refused: CallOutcome = { kind: 'failed', cause: 'connect', transport: 'refused', keyId: 'k' }
const ok = (ttftMs: number): CallOutcome => ({
  kind: 'ok',
  ttftMs,
  durationMs: ttftMs + 1_000,
  promptTokens: 100,
  completionTokens: 50,
  cachedTokens: null,
})

describe('§8 the table', () => {
  test('at the start a node is asked at once, and one good poll is enough', async () => {
    const node = fakeNode({ models: ['m1', 'm2'], speaks: 'llama.cpp', slots: 3, contextLength: 4_096 })
    const row = await register(node)
    const { router } = await startRouter()
    expect(stateOf(router, row.nodeId)).toBe('ready')
    const route = routeFor(router, 'm1')
    expect(route).toMatchObject({ nodeId: row.nodeId, runtimeKind: 'llama.cpp', ready: true, upstreamModelId: 'm1' })
    expect(route.profileId).toMatch(/^mp_/)
    expect(router.table().owners.get(row.nodeId)).toBe('local')
  })

  test('profiles have the same ids on every gateway and after a restart', async () => {
    await register(fakeNode({ models: ['m1', 'm2', 'm3'] }))
    const [a, b] = await Promise.all([startRouter(), startRouter()])
    const ids = (running: Running) =>
      running.router
        .table()
        .routes.map((route) => route.profileId)
        .sort()
    expect(ids(a)).toHaveLength(3)
    expect(ids(b)).toEqual(ids(a))
    await a.router.stop()
    expect(ids(await startRouter())).toEqual(ids(b))
  })

  test('a model that was seen before is known while its node is away: no route, and not unknown', async () => {
    const node = fakeNode()
    await register(node)
    const first = await startRouter()
    await first.router.stop()
    node.setFaults({ kind: 'refuse' })
    const { router } = await startRouter()
    expect(placed(router)).toEqual({ kind: 'refused', code: 'no_route_available' })
    expect(placed(router, 'never-seen')).toEqual({ kind: 'refused', code: 'model_not_found' })
  })

  test('a model that comes or goes is followed', async () => {
    const node = fakeNode({ models: ['m1'] })
    await register(node)
    const { router } = await startRouter()
    node.setModels(['m2'])
    await untilTable(router, () => placed(router, 'm2').kind === 'placed')
    expect(placed(router, 'm1')).toEqual({ kind: 'refused', code: 'no_route_available' })
  })

  test('§23: machines that name a model differently pool under its aliases; the entry bounds the context', async () => {
    const a = await register(fakeNode({ models: ['llama3.1:8b'], contextLength: 8_192 }))
    const b = await register(fakeNode({ models: ['meta/llama-3.1-8b'], contextLength: 131_072 }))
    const { router, reload } = await startRouter()
    await putModelEntry(database.db, {
      modelId: 'llama-8b',
      aliases: ['llama3.1:8b', 'meta/llama-3.1-8b'],
      contextLength: 32_768,
    })
    await reload()
    for (const name of ['llama-8b', 'llama3.1:8b', 'meta/llama-3.1-8b']) {
      const routes = router.table().byModel.get(name) ?? []
      expect(routes.map((route) => route.nodeId).sort()).toEqual([a.nodeId, b.nodeId].sort())
      expect(new Set(routes.map((route) => route.modelId))).toEqual(new Set(['llama-8b']))
    }
    const contexts = new Map(router.table().routes.map((route) => [route.nodeId, route.contextLength]))
    expect([contexts.get(a.nodeId), contexts.get(b.nodeId)]).toEqual([8_192, 32_768])
  })

  test('the key of a node is opened and sent to it', async () => {
    const seen: (string | null)[] = []
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => {
        seen.push(request.headers.get('authorization'))
        return Response.json({ object: 'list', data: [{ id: 'm', object: 'model' }] })
      },
    })
    cleanups.push(() => server.stop(true))
    await register({ url: `http://127.0.0.1:${server.port}/v1` }, { apiKeySealed: Buffer.from('node-key') })
    const { router } = await startRouter()
    expect(routeFor(router, 'm').ready).toBe(true)
    expect(new Set(seen)).toEqual(new Set(['Bearer node-key']))
  })
})

describe('§8 failing and coming back', () => {
  test('a refused call makes the node stale in the same tick; it returns after two good polls', async () => {
    const [a, b] = [fakeNode({ name: 'a-' }), fakeNode({ name: 'b-' })]
    const rowA = await register(a)
    const rowB = await register(b)
    const { router, states } = await startRouter()
    const route = (router.table().byModel.get('fake-model') ?? []).find((entry) => entry.nodeId === rowA.nodeId)
    if (route === undefined) throw new Error('no route')
    a.setFaults({ kind: 'refuse' })
    call(router, route).release(refused)
    expect(stateOf(router, rowA.nodeId)).toBe('stale')
    for (let i = 0; i < 20; i++) expect(routeFor(router).nodeId).toBe(rowB.nodeId)
    a.clearFaults()
    await untilState(router, rowA.nodeId, 'ready')
    expect(states(rowA.nodeId).at(-1)).toBe('ready')
    expect(states(rowA.nodeId)).toContain('stale.silent')
  })

  test('without any call, polls find the refusal', async () => {
    const node = fakeNode()
    const row = await register(node)
    const { router } = await startRouter()
    node.setFaults({ kind: 'refuse' })
    await untilState(router, row.nodeId, 'stale')
  })

  test('a hanging node: not ready, then stale, then offline; its calls are told', async () => {
    const node = fakeNode()
    const row = await register(node)
    const { router, states } = await startRouter({
      SVC_PROBE_TIMEOUT_MS: '500',
      SVC_STALE_AFTER_MS: '2000',
      SVC_OFFLINE_AFTER_MS: '3000',
    })
    await untilState(router, row.nodeId, 'ready')
    const before = states(row.nodeId).length
    const held = call(router, routeFor(router))
    node.setFaults({ kind: 'slowHeaders', ms: 60_000, scope: 'all' })
    await untilState(router, row.nodeId, 'offline')
    await held.lost
    expect(states(row.nodeId).slice(before)).toEqual(['live', 'stale.silent', 'offline'])
    expect(router.counts()).toMatchObject({ inFlight: 0, nodes: { offline: 1 } })
    node.clearFaults()
    await untilState(router, row.nodeId, 'ready')
  })

  test('an unhealthy node that still answers is not ready, and keeps its calls', async () => {
    const node = fakeNode({ speaks: 'vllm' })
    const row = await register(node)
    const { router, states } = await startRouter()
    const held = call(router, routeFor(router))
    let lost = false
    void held.lost.then(() => {
      lost = true
    })
    node.setFaults({ kind: 'unhealthyOnly', status: 500 })
    await untilState(router, row.nodeId, 'live')
    for (let polls = 0; polls < 20; polls++) await router.pollNow(row.nodeId)
    expect(states(row.nodeId)).not.toContain('offline')
    expect(lost).toBe(false)
    node.clearFaults()
    await untilState(router, row.nodeId, 'ready')
  })

  test('what a view and a log line say of a failure names no address', async () => {
    const node = fakeNode()
    const row = await register(node)
    const running = await startRouter()
    node.setFaults({ kind: 'refuse' })
    await untilState(running.router, row.nodeId, 'stale')
    const [view] = running.router.nodes()
    expect(view?.lastError?.code).toBe('refused')
    const port = String(node.port)
    expect(JSON.stringify(view)).not.toContain(port)
    const lines = running.lines.join('')
    expect(lines).toContain('"to":"stale.silent"')
    expect(lines).not.toContain('127.0.0.1')
    expect(lines).not.toContain(`:${port}`)
  })
})

describe('§8 ejection', () => {
  test('five failures that two keys saw: the route is left alone for a while, then used again', async () => {
    const rows = [await register(fakeNode()), await register(fakeNode())]
    const { router } = await startRouter()
    const bad = routeFor(router)
    for (const key of ['k1', 'k1', 'k1', 'k1']) call(router, bad).release(failed(key))
    expect(bad.load.ejectedUntilMs).toBe(0)
    call(router, bad).release(failed('k2'))
    expect(bad.load.ejectedUntilMs).toBeGreaterThan(Date.now())
    for (let i = 0; i < 50; i++) expect(routeFor(router).nodeId).not.toBe(bad.nodeId)
    expect(router.nodes().find((view) => view.nodeId === bad.nodeId)?.runtimes[0]?.models[0]?.timesEjected).toBe(1)
    const other = rows.find((row) => row.nodeId !== bad.nodeId)
    const busy = (router.table().byModel.get('fake-model') ?? []).find((entry) => entry.nodeId === other?.nodeId)
    if (busy === undefined) throw new Error('no other route')
    call(router, busy)
    expect(routeFor(router).nodeId).toBe(busy.nodeId)
    expect(routeFor(router, 'fake-model', bad.load.ejectedUntilMs + 1).nodeId).toBe(bad.nodeId)
  })

  test('never the last route', async () => {
    await register(fakeNode())
    const { router } = await startRouter()
    const only = routeFor(router)
    for (let i = 0; i < 10; i++) call(router, only).release(failed(`k${i}`))
    expect(only.load.ejectedUntilMs).toBeGreaterThan(Date.now())
    expect(routeFor(router).profileId).toBe(only.profileId)
  })
})

describe('§8 draining, §23 drain, resume, revoke', () => {
  test('a draining node gets nothing new, finishes what it has, and waits for resume', async () => {
    const row = await register(fakeNode())
    const { router, reload, states } = await startRouter()
    const held = call(router, routeFor(router))
    await pool.drainNode(database.db, row.nodeId)
    await reload()
    expect(stateOf(router, row.nodeId)).toBe('draining')
    expect(placed(router)).toEqual({ kind: 'refused', code: 'no_route_available' })
    held.release(ok(10))
    expect(stateOf(router, row.nodeId)).toBe('live')
    await router.pollNow(row.nodeId)
    expect(stateOf(router, row.nodeId)).toBe('live')
    await pool.resumeNode(database.db, row.nodeId)
    await reload()
    expect(stateOf(router, row.nodeId)).toBe('ready')
    expect(states(row.nodeId)).toEqual(['enrolled', 'ready', 'draining.answering', 'live', 'ready'])
  })

  test('what has not ended in time is ended', async () => {
    const row = await register(fakeNode())
    const { router, reload } = await startRouter({ SVC_DRAIN_TIMEOUT_MS: '400' })
    const held = call(router, routeFor(router))
    await pool.drainNode(database.db, row.nodeId)
    await reload()
    await held.lost
    expect(stateOf(router, row.nodeId)).toBe('live')
  })

  test('a node that was drained before the start stays without work', async () => {
    const row = await register(fakeNode())
    await pool.drainNode(database.db, row.nodeId)
    const { router } = await startRouter()
    await untilState(router, row.nodeId, 'live')
    await router.pollNow(row.nodeId)
    expect(placed(router)).toEqual({ kind: 'refused', code: 'no_route_available' })
  })

  test('revoke: calls end, the node is gone from the table', async () => {
    const row = await register(fakeNode())
    const { router, reload, states } = await startRouter()
    const held = call(router, routeFor(router))
    await pool.revokeNode(database.db, row.nodeId)
    await reload()
    await held.lost
    expect(states(row.nodeId).at(-1)).toBe('revoked')
    expect(router.nodes()).toEqual([])
    expect(router.transport(row.nodeId)).toBeNull()
    expect(router.table().owners.has(row.nodeId)).toBe(false)
    expect(await pool.resumeNode(database.db, row.nodeId)).toBeNull()
  })

  test('another address is used from the next poll on; calls at the old one go on', async () => {
    const [old, fresh] = [fakeNode({ models: ['m'] }), fakeNode({ models: ['m', 'n'] })]
    const row = await register(old)
    const { router, reload } = await startRouter()
    const held = call(router, routeFor(router, 'm'))
    const gone = new AbortController()
    const streaming = router.transport(row.nodeId)?.fetch('/v1/models', { method: 'GET', signal: gone.signal })
    await pool.updateNode(database.db, row.nodeId, { url: fresh.url })
    await reload()
    await untilTable(router, () => placed(router, 'n').kind === 'placed')
    expect((await streaming)?.status).toBe(200)
    held.release()
    expect(routeFor(router, 'n').nodeId).toBe(row.nodeId)
  })
})

const anybody = () => new Ticket({ customerId: 'c', keyId: 'k', priority: 5 })

describe('slots', () => {
  test('§5: a full model is saturated; a released slot wakes who waits', async () => {
    await register(fakeNode({ speaks: 'llama.cpp', slots: 1 }))
    const { router } = await startRouter()
    const held = call(router, routeFor(router))
    expect(placed(router).kind).toBe('saturated')
    const waiting = router.waitForSlot('fake-model', anybody(), 2_000, new AbortController().signal)
    expect(router.counts()).toMatchObject({ inFlight: 1, queued: 1 })
    held.release(ok(5))
    expect(await waiting).toBe('slot')
    expect(placed(router).kind).toBe('placed')
    expect(router.counts()).toMatchObject({ inFlight: 0, queued: 0 })
  })

  test('a node that becomes ready wakes who waits', async () => {
    const node = fakeNode()
    const row = await register(node)
    const { router } = await startRouter()
    node.setFaults({ kind: 'refuse' })
    await untilState(router, row.nodeId, 'stale')
    const waiting = router.waitForSlot('fake-model', anybody(), 5_000, new AbortController().signal)
    node.clearFaults()
    expect(await waiting).toBe('slot')
  })
})

test('§29: a call that ended with its first chunk takes nothing from the backlog of the others', async () => {
  await register(fakeNode())
  const { router } = await startRouter()
  const route = routeFor(router)
  const prompt = { units: 2_000, blocks: [1], first: 1 }
  const placedCall = (): InFlightCall => ({
    callPlace: -1,
    work: {
      atMs: Date.now(),
      ownMs: 100,
      lagMs: 0,
      unreadUnits: 2_000,
      matchedBlocks: 0,
      atOnce: true,
      concurrency: 1,
      prompt,
      readMs: null,
    },
    timed: true,
    nodeLost: () => {},
  })
  const [ended, open] = [placedCall(), placedCall()]
  router.claim(route, ended)
  router.claim(route, open)
  router.release(route, ended, { kind: 'neutral' })
  router.began(route, ended)
  expect(route.load.reading.unseenMs).toBe(100)
  router.release(route, open, { kind: 'neutral' })
  expect(route.load.reading.unseenMs).toBe(0)
})

describe('§29 what a cache holds', () => {
  const long = { units: 200 * blockUnits, blocks: Array.from({ length: 200 }, (_, at) => at + 1), first: 1 }
  const work = (matchedBlocks: number): Work => ({
    ...{
      atMs: Date.now(),
      ownMs: 100,
      lagMs: 0,
      unreadUnits: 0,
      matchedBlocks,
      atOnce: true,
      concurrency: 1,
      prompt: long,
      readMs: null,
    },
  })
  const longCall = (matchedBlocks: number): InFlightCall => ({
    callPlace: -1,
    work: work(matchedBlocks),
    timed: true,
    nodeLost: () => {},
  })

  test('§29: what its server says of its cache, a poll later no more is thought to be in it', async () => {
    const { nodeId } = await register(fakeNode({ speaks: 'llama.cpp', slots: 2, contextLength: 6_400 }))
    const { router } = await startRouter()
    const route = routeFor(router)
    const inFlight = longCall(0)
    router.claim(route, inFlight)
    const view = router.caches.of(route.modelId)
    expect(view.match(long).unitsOf(route.profileId)).toBe(200 * blockUnits)
    // The first poll may be just ending.
    await router.pollNow(nodeId)
    await router.pollNow(nodeId)
    expect(view.capacityOf(route.profileId)).toBe(100)
    expect(view.match(long).unitsOf(route.profileId)).toBe(100 * blockUnits)
    expect(view.evictedFrom(route.profileId)).toBe(100)
    router.release(route, inFlight, { kind: 'neutral' })
  })

  test('§29: what a server found in its cache is a share of the prompt, however many letters its tokens have', async () => {
    await register(fakeNode())
    const { router } = await startRouter()
    const route = routeFor(router)
    const capacityAfter = (cachedTokens: number) => {
      const inFlight = longCall(150)
      router.claim(route, inFlight)
      router.release(route, inFlight, { ...ok(5), promptTokens: 30_000, cachedTokens } as CallOutcome)
      return router.caches.of(route.modelId).capacityOf(route.profileId)
    }
    expect(capacityAfter(22_500)).toBe(1_044)
    expect(capacityAfter(15_000)).toBe(940)
  })
})

test('§9: the last measured call is kept, with its rate, and survives a restart', async () => {
  await register(fakeNode())
  const { router } = await startRouter()
  const route = routeFor(router)
  const measured = (of = router) => of.nodes()[0]?.runtimes[0]?.models[0]?.measuredAt
  expect(measured()).toBe(0)
  const before = Math.floor(Date.now() / 1_000)
  call(router, route).release(ok(250))
  call(router, route).release(ok(150))
  expect(route.load).toMatchObject({ ttftEwmaMs: 230, tokensPerSecond: 50 })
  expect(measured()).toBeGreaterThanOrEqual(before)
  await router.stop()
  const [row] = (await pool.readPool(database.db)).profiles
  expect(row).toMatchObject({ ttftMs: 150, tokensPerSecond: 50 })
  const restarted = await startRouter()
  expect(measured(restarted.router)).toBe(Math.floor((row?.lastMeasuredAt?.getTime() ?? 0) / 1_000))
  expect(restarted.router.table().routes[0]?.load.ttftEwmaMs).toBe(150)
})

test('stop ends polls, tells the calls that are left, and leaves no route claimed', async () => {
  const node = fakeNode()
  await register(node)
  const { router } = await startRouter()
  const held = call(router, routeFor(router))
  await router.stop()
  await held.lost
  const { probes } = node.stats()
  // Another router of the same pace polls its own node again and again meanwhile.
  await database.sql`truncate nodes cascade`
  const other = fakeNode()
  await register(other)
  await startRouter()
  const goal = other.stats().probes + 4
  await waitUntil('polls of another router', () => other.stats().probes >= goal)
  expect(node.stats().probes).toBe(probes)
})

test("§37: how long loads take on another owner's nodes says nothing of one's own", async () => {
  await database.sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values ('other', 'other', ${Buffer.from('hash2')}, ${Buffer.from('sealed')}) on conflict do nothing`
  for (const model of ['mine', 'mine-too']) await register(fakeNode({ models: [model] }))
  await register(fakeNode({ models: ['foreign'] }), { customerId: 'other' as never })
  const { router } = await startRouter()
  const timesOf = (id: string) => router.table().byModel.get(id)?.[0]?.load.reading.loadTimes.all
  timesOf('foreign')?.measured(600_000)
  expect(timesOf('mine')).toBeDefined()
  expect([timesOf('mine')?.meanMs, timesOf('mine-too')?.meanMs]).toEqual([null, null])
  timesOf('mine')?.measured(3_000)
  expect(timesOf('mine-too')?.meanMs).toBe(3_000)
})
