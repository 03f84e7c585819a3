import { afterEach, expect, test } from 'bun:test'
import { polledText } from '../../../src/actors/polls/polled-text.ts'
import { type AskLeader, SharedPolls } from '../../../src/actors/polls/shared-polls.ts'
import { wayMark } from '../../../src/actors/pool/node-connection.ts'
import { PoolRouter } from '../../../src/actors/pool/pool-router.ts'
import type { AgentAccess, RouterOptions } from '../../../src/actors/pool/router-options.ts'
import { createInspector } from '../../../src/actors/telemetry/inspect.ts'
import * as pool from '../../../src/db/queries/pool/pool.ts'
import type { NodeId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import type { PollResult } from '../../../src/polling/node-watch.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const env = {
  SVC_POLL_INTERVAL_MS: '50',
  SVC_PROBE_TIMEOUT_MS: '10000',
  SVC_STALE_AFTER_MS: '60000',
  SVC_OFFLINE_AFTER_MS: '120000',
}
const refused: PollResult = { kind: 'failed', code: 'refused' }
const cleanups: (() => unknown)[] = []

const database = await fixture(testDatabase({ connectionsMax: 8 }))
await database.sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values ('local', 'local', ${Buffer.from('hash')}, ${Buffer.from('sealed')})`

afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
  await database.sql`truncate nodes cascade`
})

/** A model server that writes down what it is asked. */
function listedServer() {
  const asked: string[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const { pathname } = new URL(request.url)
      asked.push(pathname)
      if (pathname !== '/v1/models') return new Response('no such path', { status: 404 })
      return Response.json({ object: 'list', data: [{ id: 'm', object: 'model', context_length: 8_192 }] })
    },
  })
  cleanups.push(() => server.stop(true))
  return { url: `http://127.0.0.1:${server.port}`, asked, stop: () => server.stop(true) }
}

const register = (url: string) =>
  pool.insertNode(database.db, {
    customerId: 'local',
    kind: 'runtime',
    name: 'n',
    url,
    visibility: 'private',
    privacyClass: 'private',
    nodeClass: 'default',
  })

/** The pool of one of several processes. */
async function startPool(
  leads: boolean,
  ask: AskLeader,
  change: Readonly<Record<string, string>> = {},
  more: Partial<RouterOptions> = {},
) {
  const read = readConfig({ ...env, ...change })
  if ('faults' in read) throw new Error(read.faults.join())
  const { config } = read
  const log = createLog('silent', () => {})
  const polls = new SharedPolls({ config, log, leads, ask })
  const inspector = createInspector(log)
  const router = new PoolRouter({
    config,
    db: database.db,
    log,
    polls,
    openSecret: (sealed) => Buffer.from(sealed).toString(),
    inspect: inspector.inspect,
    ...more,
  })
  cleanups.push(async () => {
    polls.stop()
    await router.stop()
  })
  polls.start(router.heard)
  router.rowsChanged(await pool.readPool(database.db))
  await router.whenServing()
  return { router, polls }
}

const nobody: AskLeader = async () => null

test('§37: a process knows a node by the polls of another one, and does not ask it at its start', async () => {
  const server = listedServer()
  const { nodeId } = await register(server.url)
  const leader = await startPool(true, nobody, { SVC_POLL_INTERVAL_MS: '60000' })
  const askedByLeader = server.asked.length
  const follower = await startPool(
    false,
    async (_leader, since) => {
      const polls = leader.polls.told(since)
      return polls === null ? null : { leader: 'leader', polls }
    },
    { SVC_POLL_INTERVAL_MS: '60000' },
  )
  expect(follower.router.node(nodeId)?.state).toBe('ready')
  expect(follower.router.table().routes.map((route) => [route.upstreamModelId, route.ready])).toEqual([['m', true]])
  expect(server.asked.length).toBe(askedByLeader)
  // What is asked for is asked from here.
  await follower.router.pollNow(nodeId)
  expect(server.asked.length).toBeGreaterThan(askedByLeader)
})

test('§37: a process that begins to lead asks a node as the kind of server that the other one has found', async () => {
  const server = listedServer()
  const { nodeId } = await register(server.url)
  const leader = await startPool(true, nobody)
  const follower = await startPool(false, async (_leader, since) => {
    const polls = leader.polls.told(since)
    return polls === null ? null : { leader: 'leader', polls }
  })
  await waitUntil('its news', () => follower.polls.spares(nodeId))
  leader.polls.follow()
  await leader.router.stop()
  server.asked.length = 0
  follower.polls.lead()
  await waitUntil('polls of its own', () => server.asked.length >= 3)
  expect(new Set(server.asked)).toEqual(new Set(['/v1/models']))
})

test('§37: what another process has polled before something newer was heard of the node is not believed', async () => {
  const server = listedServer()
  const { nodeId } = await register(server.url)
  const { router } = await startPool(true, nobody, { SVC_POLL_INTERVAL_MS: '60000' })
  const node = router.pooled(nodeId)
  if (node === null) throw new Error('no such node')
  const hear = async (result: PollResult, askedMs: number) => {
    router.heard.take(nodeId as NodeId, node.polls.way, result, askedMs)
    await Promise.resolve()
    await Promise.resolve()
    return router.node(nodeId)?.state
  }
  const answered: PollResult = { kind: 'answered', reports: [] }
  // The first poll may not be over, and a further one would join it.
  await router.pollNow(nodeId)
  const beforeMs = performance.now()
  await router.pollNow(nodeId)
  expect(await hear(refused, beforeMs)).toBe('ready')
  expect(await hear(refused, performance.now())).toBe('stale')
  // It is told to be asleep; what it said before says nothing of that.
  const awakeMs = performance.now()
  const asleep = { since: new Date().toISOString(), ready: {} }
  node.row = { ...node.row, asleep } as typeof node.row
  node.sleepOrWake(null, Date.now())
  expect(router.node(nodeId)?.state).toBe('asleep')
  expect(await hear(answered, awakeMs)).toBe('asleep')
  expect(router.heard.take(nodeId as NodeId, 'another address', answered, performance.now())).toBe(false)
})

test('§37: where the tunnel of a node ends in this process, it is asked from here when the other one does not reach it', async () => {
  const server = listedServer()
  const { nodeId } = await register(server.url)
  // Of the way to agents only its end matters here.
  const agents = { way: () => 'tunnel' } as unknown as AgentAccess
  const { router } = await startPool(true, nobody, { SVC_POLL_INTERVAL_MS: '60000' }, { agents })
  await router.pollNow(nodeId)
  const asked = server.asked.length
  const way = router.pooled(nodeId)?.polls.way ?? ''
  expect(router.heard.take(nodeId, way, refused, performance.now())).toBe(true)
  await waitUntil('a poll from here', () => server.asked.length > asked)
  expect(router.node(nodeId)?.state).toBe('ready')
})

test('§37: a node is silent from when another process has asked it, not from when that was heard', async () => {
  const { nodeId, ...row } = await register('http://127.0.0.1:9')
  const agoMs = 3_000
  const answered = { kind: 'answered', reports: [] } as const
  const way = wayMark({ nodeId, ...row })
  const polls = [{ node_id: nodeId, way, number: 1, asked_ms_ago: agoMs, result: polledText(answered) }]
  const ask: AskLeader = async () => ({ leader: 'leader', polls: { up_to: 1, more: false, polls } })
  const { router } = await startPool(false, ask, { SVC_POLL_INTERVAL_MS: '5000' })
  const chart = router.pooled(nodeId)?.actor.getSnapshot()
  expect(chart?.value).toBe('live')
  expect((chart?.context.nowMs ?? 0) - (chart?.context.lastAnswerMs ?? 0)).toBeGreaterThanOrEqual(agoMs)
})

test('§39: a sleeping node is asked once a minute by all processes together: by the one that polls', async () => {
  const server = listedServer()
  const { nodeId, ...row } = await register(server.url)
  const log = createLog('silent', () => {})
  const read = readConfig({ ...env, SVC_PROBE_TIMEOUT_MS: '50' })
  if ('faults' in read) throw new Error(read.faults.join())
  const leader = new SharedPolls({ config: read.config, log, leads: true, ask: nobody })
  leader.record(nodeId, wayMark({ nodeId, ...row }), { kind: 'answered', reports: [] }, performance.now())
  let questions = 0
  const { router } = await startPool(
    false,
    async (_leader, since) => {
      questions++
      const polls = leader.told(since)
      return polls === null ? null : { leader: 'leader', polls }
    },
    { SVC_PROBE_TIMEOUT_MS: '50' },
  )
  const node = router.pooled(nodeId)
  if (node === null) throw new Error('no such node')
  const asleep = { since: new Date().toISOString(), ready: {} }
  node.row = { ...node.row, asleep } as typeof node.row
  node.sleepOrWake(null, Date.now())
  let [asked, from] = [server.asked.length, questions]
  // A poll that went out while the node was awake here may still end.
  await waitUntil('many intervals of a node that is gone, without a poll from here', () => {
    const isGone = node.actor.getSnapshot().matches({ asleep: 'gone' })
    if (!isGone) leader.record(nodeId, node.polls.way, refused, performance.now())
    if (!isGone || server.asked.length > asked) [asked, from] = [server.asked.length, questions]
    return questions > from + 60
  })
  node.wake.begun(performance.now())
  await waitUntil('a poll from here once somebody wakes it', () => server.asked.length > asked)
})
