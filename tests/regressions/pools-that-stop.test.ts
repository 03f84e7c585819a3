import { afterAll, afterEach, expect, test } from 'bun:test'
import { PoolRouter } from '../../src/actors/pool/pool-router.ts'
import { createInspector } from '../../src/actors/telemetry/inspect.ts'
import { sessionOf } from '../../src/db/client.ts'
import * as pool from '../../src/db/queries/pool/pool.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { createLog } from '../../src/log.ts'
import { FirstPolls, firstPollsMax } from '../../src/polling/first-polls.ts'
import { createNodeWatch, type PollResult } from '../../src/polling/node-watch.ts'
import { type Config, readConfig } from '../../src/settings/config.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { turn } from '../support/run/turn.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'
import { settled, waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a gateway that ended wrote models of its nodes beside what came after its pool, and asked nodes for the first time.
 * Cause: the pool that was stopped waited neither for what its last polls had found, nor ended those that waited for their turn.
 * Fix: its end waits for the polls under way, 5 s at most, and none asks anything from then on.
 */
const database = await fixture(testDatabase({ connectionsMax: 4 }))
await database.sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values ('local', 'local', ${Buffer.from('hash')}, ${Buffer.from('sealed')})`
const fake = startFakeNode({ name: 'n', models: ['m'] })
afterAll(() => fake.stop())

const log = createLog('silent', () => {})
const { sql, db } = database
const register = (url: string) =>
  pool.insertNode(db, {
    ...{ customerId: 'local', kind: 'runtime', name: 'n', url },
    ...{ visibility: 'private', privacyClass: 'private', nodeClass: 'default' },
  })

function startPool(changes: Partial<Config> = {}): PoolRouter {
  const read = readConfig({})
  if ('faults' in read) throw new Error(read.faults.join())
  const { inspect } = createInspector(log)
  return new PoolRouter({ config: { ...read.config, ...changes }, db, log, openSecret: () => null, inspect })
}
/** Resolves when a poll has found a model. It is written when what is returned is called. */
async function findsWhatItCannotWrite(router: PoolRouter): Promise<() => Promise<void>> {
  const holder = sessionOf(sql)
  await holder`begin`
  await holder`lock table model_profiles in share mode`
  router.rowsChanged(await pool.readPool(db))
  await waitUntil('a model to write', async () => (await lockWaits(sql)) > 0)
  return () => holder.end()
}
afterEach(async () => {
  await sql`delete from nodes`
})

test('§5: a pool has stopped when what its last poll has found is written', async () => {
  await register(fake.url)
  const router = startPool()
  const letWrite = await findsWhatItCannotWrite(router)
  let hasStopped = false
  const stopping = router.stop().then(() => {
    hasStopped = true
  })
  expect(await lockWaits(sql)).toBe(1)
  expect(hasStopped).toBe(false)
  await Promise.all([letWrite(), stopping])
  expect(await sql`select upstream_model_id from model_profiles`).toEqual([{ upstream_model_id: 'm' }] as never)
})

test('§5: a pool ends though what its last poll has found cannot be written', async () => {
  await register(fake.url)
  const router = startPool()
  const letWrite = await findsWhatItCannotWrite(router)
  await settled('the end of the pool', router.stop())
  // The database has not given up its statement before.
  expect(await lockWaits(sql)).toBe(1)
  await letWrite()
})

test('§5: nodes that answer nothing, or never to an end, do not keep a pool from its end', async () => {
  const asked = new Set<string>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: (request) => {
      const { pathname } = new URL(request.url)
      const kind = pathname.split('/')[1] ?? ''
      asked.add(kind)
      if (kind === 'silent') return new Promise<Response>(() => {})
      return new Response(new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode('{"data":[')) }))
    },
  })
  for (const kind of ['silent', 'endless']) await register(`http://127.0.0.1:${server.port}/${kind}`)
  // Longer than this test may wait, and than the setting allows.
  const router = startPool({ SVC_PROBE_TIMEOUT_MS: 600_000 })
  router.rowsChanged(await pool.readPool(db))
  await waitUntil('both to be asked', () => asked.size === 2)
  await settled('the end of the pool', router.stop())
  await server.stop(true)
})

test('§8: a poll that waits for its turn when its node is let go asks nothing', async () => {
  const clock = new VirtualClock()
  const firstPolls = new FirstPolls(clock)
  const asked: number[] = []
  const found: PollResult[] = []
  const watches = Array.from({ length: firstPollsMax + 1 }, (_, at) =>
    createNodeWatch({
      probe: firstPolls.inTurn((bounded) =>
        bounded(async (signal) => {
          asked.push(at)
          await new Promise((_, reject) => signal.addEventListener('abort', reject))
          return { kind: 'answered', reports: [] }
        }),
      ),
      intervalMs: 60_000,
      timeoutMs: 10_000,
      random: () => 0.5,
      onResult: async (result) => void found.push(result),
      clock,
    }),
  )
  for (const watch of watches) void watch.pollNow()
  expect(asked).toHaveLength(firstPollsMax)
  await Promise.all(watches.map((watch) => watch.stop()))
  await turn()
  expect(asked).toHaveLength(firstPollsMax)
  expect(found).toEqual([])
})
