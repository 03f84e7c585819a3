import { afterEach, expect, test } from 'bun:test'
import type { ChatSample } from '../../src/actors/telemetry/metrics.ts'
import { startLoopbackNode } from '../../src/actors/warm-up/loopback-node.ts'
import { type OpenDoor, warmUp } from '../../src/actors/warm-up/warm-up.ts'
import { openWarmDoor } from '../../src/http/warm-door.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/http-gateway.ts'
import { startWatchedGateway } from '../support/gateways/watched-gateway.ts'
import { testLimitMs } from '../support/run/limits.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const stops: (() => unknown)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

async function started(): Promise<TestGateway> {
  const gateway = await startTestGateway()
  stops.push(() => gateway.stop())
  return gateway
}

/** More than one of each kind. */
const samplesEnough = 40
/** The next timer of the warm-up is the end of its time. */
const endTime = (clock: VirtualClock) => clock.pass(clock.waits[0] ?? 0)

const lineOf = (gateway: TestGateway, event: string) => gateway.logged().filter((line) => line.event === event)

/** Tables and how many rows each has. */
async function rowsOf({ database }: TestGateway): Promise<Readonly<Record<string, number>>> {
  const tables = await database.sql`select tablename as name from pg_tables where schemaname = 'public'`
  const counts = tables.map(async ({ name }) => {
    const [row] = await database.sql`select count(*)::int as rows from ${database.sql(name)}`
    return [name, row?.rows] as const
  })
  return Object.fromEntries(await Promise.all(counts))
}

/** What anybody can see of requests: without process figures, which move by themselves. */
async function seenOf(gateway: TestGateway) {
  const metrics = await gateway.gateway.metrics.text()
  const nodes = await gateway.ask('GET', '/v1/admin/nodes', { as: 'viewer' })
  return {
    metrics: metrics.split('\n').filter((line) => /^svc_(chat|model|upstream|requests?|receipts|nodes)/.test(line)),
    nodes: ((await nodes.json()) as { readonly nodes: unknown }).nodes,
    routes: gateway.gateway.router.table().routes.length,
    rows: await rowsOf(gateway),
  }
}

test('§1: the warm-up asks for whole answers and streams through the whole path, and nothing of it is seen', async () => {
  const gateway = await started()
  const before = await seenOf(gateway)
  const lines = gateway.logged().length
  const samples: ChatSample[] = []
  const requestIds: string[] = []
  const clock = new VirtualClock()
  const enough = Promise.withResolvers<void>()
  const openDoor: OpenDoor = (handle, key) => {
    const operation = (route: string) => {
      const measure = handle.metrics.operation(route)
      return (sample: ChatSample) => {
        samples.push(sample)
        if (samples.length >= samplesEnough) enough.resolve()
        measure(sample)
      }
    }
    const complete: typeof handle.chat.complete = (command) => {
      requestIds.push(command.requestId)
      return handle.chat.complete(command)
    }
    return openWarmDoor(
      { ...handle, chat: { ...handle.chat, complete }, metrics: { ...handle.metrics, operation } },
      key,
    )
  }
  const warming = warmUp(gateway.gateway, openDoor, clock)
  await enough.promise
  await endTime(clock)
  await warming
  const good = samples.filter(({ status, code }) => status === 200 && code === null)
  expect(
    good.filter(({ stream, ttftS, completionTokens }) => stream && ttftS !== null && completionTokens > 0),
  ).not.toBeEmpty()
  expect(good.filter(({ stream, completionTokens }) => !stream && completionTokens > 0)).not.toBeEmpty()
  expect(samples.filter(({ status }) => status !== 200 && status !== 499)).toEqual([])
  const told = gateway.logged().slice(lines)
  expect(told.map(({ event }) => event)).toEqual(['warmed_up'])
  expect(told[0]?.answered).toBeGreaterThan(0)
  expect(gateway.logged().filter((line) => requestIds.includes(String(line.request_id)))).toEqual([])
  expect(requestIds.filter((id) => gateway.gateway.explain(id) !== null)).toEqual([])
  const { rows, ...after } = await seenOf(gateway)
  const { rows: rowsBefore, ...seenBefore } = before
  expect(after).toEqual(seenBefore)
  const changed = Object.keys(rows).filter((name) => rows[name] !== rowsBefore[name])
  // The two looks of this test at the list of nodes stand in the audit.
  expect(changed.filter((name) => !/access|audit/.test(name))).toEqual([])
})

test('§1: nobody else is let in by the listeners of the warm-up, which are closed at its end', async () => {
  const gateway = await started()
  const clock = new VirtualClock()
  const answers: Promise<Response>[] = []
  let url = ''
  const openDoor: OpenDoor = (handle, key) => {
    const door = openWarmDoor(handle, key)
    url = door.url
    const body = JSON.stringify({ model: 'warm-up', messages: [{ role: 'user', content: 'hello' }] })
    const ask = (base: string, bearer: string) =>
      fetch(`${base}/v1/api/chat/completions`, { method: 'POST', headers: { authorization: `Bearer ${bearer}` }, body })
    answers.push(ask(door.url, 'another'), ask(gateway.url, key))
    return door
  }
  const warming = warmUp(gateway.gateway, openDoor, clock)
  const [stranger, elsewhere] = await Promise.all(answers)
  expect([stranger?.status, await stranger?.text()]).toEqual([404, ''])
  expect(elsewhere?.status).toBe(401)
  await endTime(clock)
  await warming
  expect(await fetch(url).catch(() => 'closed')).toBe('closed')
  const node = startLoopbackNode('m', 'secret')
  stops.push(() => node.stop())
  const refused = await fetch(`${node.url}/v1/chat/completions`, { method: 'POST', body: '{}' })
  expect([refused.status, await refused.text()]).toEqual([404, ''])
})

test('§1: a warm-up that gets no answer ends at its bound, and what it opened is closed', async () => {
  const gateway = await started()
  const closed: string[] = []
  const clock = new VirtualClock()
  const asked = Promise.withResolvers<void>()
  const openDoor: OpenDoor = () => {
    const fetch = () => {
      asked.resolve()
      return new Promise<Response>(() => {})
    }
    const silent = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch })
    return {
      url: `http://127.0.0.1:${silent.port}`,
      stop: async () => {
        await silent.stop(true)
        closed.push('door')
      },
    }
  }
  const warming = warmUp(gateway.gateway, openDoor, clock)
  await asked.promise
  await endTime(clock)
  await warming
  expect(closed).toEqual(['door'])
  expect(lineOf(gateway, 'warmed_up').map(({ answered }) => answered)).toEqual([0])
})

test('§1: a gateway that cannot warm up says so and serves nevertheless', async () => {
  const gateway = await started()
  await warmUp(gateway.gateway, () => {
    throw new TypeError('no port left')
  })
  expect(lineOf(gateway, 'not_warmed_up').map(({ level, failure }) => [level, failure])).toEqual([
    ['warn', 'TypeError'],
  ])
  expect((await gateway.ask('GET', '/readyz')).status).toBe(200)
})

async function readyAt(env: Readonly<Record<string, string>>) {
  const port = freePort()
  const starting = startWatchedGateway({ SVC_PORT: String(port), SVC_DISCOVER: 'false', SVC_DEMO: 'never', ...env })
  const isReady = async () => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null))?.status === 200
  await waitUntil('readyz', isReady, testLimitMs)
  const readyMs = Date.now()
  const gateway = await starting
  await gateway.stop()
  stops.push(() => gateway.remove())
  const lines = gateway
    .logged()
    .split('\n')
    .filter((line) => line.startsWith('{'))
  return { readyMs, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>) }
}

test('§1: /readyz waits for the warm-up', async () => {
  const { readyMs, lines } = await readyAt({})
  // How many answers fit into its time is a busy machine's affair.
  const [warmed, ...more] = lines.filter(({ event }) => event === 'warmed_up' || event === 'not_warmed_up')
  expect([warmed?.event, more]).toEqual(['warmed_up', []])
  expect(Date.parse(String(warmed?.ts))).toBeLessThanOrEqual(readyMs)
})

test('§1: SVC_WARM_UP=false starts cold', async () => {
  const { lines } = await readyAt({ SVC_WARM_UP: 'false' })
  expect(lines.map(({ event }) => event)).toContain('listening')
  expect(lines.filter(({ event }) => event === 'warmed_up' || event === 'not_warmed_up')).toEqual([])
})
