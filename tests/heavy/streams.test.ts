import { afterAll, expect, test } from 'bun:test'
import { join, resolve } from 'node:path'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { firstMatch, residentBytes, spawnGateway } from '../support/gateways/gateway-process.ts'
import { holdStreams } from '../support/pools/held-streams.ts'

const streams = 5_000
const warmUpStreams = 100
const chunksEach = 20
const chunkEveryMs = 1_000
const openWithinMs = 60_000
/** Beyond the last first chunk: the heaps breathe, and what they have yet to collect is no memory of open streams. */
const holdMs = 9_000
const sampleEveryMs = 250
/** Memory per open stream, in units of that of the raw pass-through. */
const ratioMax = 2

const root = resolve(import.meta.dir, '..', '..')
const environment = { PATH: process.env.PATH ?? '', BUN_CONFIG_MAX_HTTP_REQUESTS: '65535' }
const programs: Bun.Subprocess[] = []
let gateway: TestGateway | null = null
afterAll(async () => {
  await gateway?.stop()
  for (const program of programs) program.kill()
  await Promise.all(programs.map(({ exited }) => exited))
})

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const program = Bun.spawn([process.execPath, ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...environment, ...env },
  })
  programs.push(program)
  return program
}

async function startNode(): Promise<string> {
  const options = JSON.stringify({ models: ['held'], answer: { chunks: chunksEach, marker: 'm' } })
  const program = run([join(root, 'tests/support/nodes/fake-node-process.ts'), options])
  return (await firstMatch(program.stdout, /listening at (\S+)/))[1] ?? ''
}

interface Target {
  readonly name: string
  readonly pid: number
  readonly url: string
  readonly path: string
  readonly key: string
}

interface Measured {
  readonly target: string
  readonly complete: number
  /** At the least and the most while all were open. */
  readonly kibPerStream: readonly [number, number]
  readonly restMib: number
}

const answer = (node: string, change: object) =>
  fetch(`${node}/answer`, { method: 'POST', body: JSON.stringify(change) }).then((response) => response.body?.cancel())

/** What the first requests cost once, compiled code above all, is no memory of open streams. */
async function warmUp(node: string, target: Target): Promise<void> {
  await answer(node, { intervalMs: 1 })
  const { complete } = await holdStreams({ ...target, model: 'held', count: warmUpStreams, chunksEach }).ended
  expect(complete).toBe(warmUpStreams)
  await answer(node, { intervalMs: chunkEveryMs })
}

/** On a process that has served little before: a warm heap hides its own growth. */
async function measure(node: string, target: Target): Promise<Measured> {
  await warmUp(node, target)
  const before = residentBytes(target.pid)
  const held = holdStreams({ ...target, model: 'held', count: streams, chunksEach })
  try {
    await waitFor(`${streams} streams of ${target.name}`, () => held.open() === streams, openWithinMs)
    const samples: number[] = []
    for (const untilMs = performance.now() + holdMs; performance.now() < untilMs; await Bun.sleep(sampleEveryMs)) {
      samples.push((residentBytes(target.pid) - before) / streams / 1024)
    }
    expect(held.open()).toBe(streams)
    const { complete } = await held.ended
    const kibPerStream = [Math.min(...samples), Math.max(...samples)] as const
    return { target: target.name, complete, kibPerStream, restMib: before / 2 ** 20 }
  } finally {
    held.destroy()
  }
}

test('5,000 streams on one process complete, each for at most twice the memory of a raw Bun pass-through', async () => {
  const node = await startNode()
  const port = freePort()
  const raw = run([join(root, 'bench/rig/raw-bun.ts')], { PORT: String(port), UPSTREAM: node })
  const rawUrl = `http://127.0.0.1:${port}`
  await waitFor('the pass-through', async () => (await fetch(`${rawUrl}/v1/models`).catch(() => null))?.ok)
  const plain = await measure(node, {
    name: 'raw Bun pass-through',
    pid: raw.pid,
    url: rawUrl,
    path: '/v1/chat/completions',
    key: 'none',
  })
  raw.kill()

  let pid = 0
  gateway = await startTestGateway({
    env: { SVC_LOG_LEVEL: 'silent', SVC_POLL_INTERVAL_MS: '5000' },
    launch: async (env) => {
      const started = await spawnGateway(env)
      pid = started.pid
      return started
    },
  })
  const customer = await gateway.customer()
  await gateway.node(node, { customerId: customer.customerId })
  const penstock = await measure(node, {
    name: 'Penstock',
    pid,
    url: gateway.url,
    path: '/v1/api/chat/completions',
    key: customer.key,
  })

  console.table(
    [plain, penstock].map(({ target, complete, kibPerStream, restMib }) => ({
      target,
      'complete streams': `${complete} of ${streams}`,
      'KiB per open stream': kibPerStream[0].toFixed(1),
      'at most': kibPerStream[1].toFixed(1),
      'MiB before': restMib.toFixed(0),
    })),
  )
  expect(plain.complete).toBe(streams)
  expect(penstock.complete).toBe(streams)
  expect(penstock.kibPerStream[0]).toBeLessThanOrEqual(ratioMax * plain.kibPerStream[0])
})
