import { afterAll, beforeAll, expect, test } from 'bun:test'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { sealedFetch } from '../../src/client/sealed/sealed-fetch.ts'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import { everyRow } from '../support/leaks/every-row.ts'
import { countInMemory } from '../support/leaks/process-memory.ts'
import { type Collector, startCollector } from '../support/money/collector.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { patientTimes } from '../support/pools/sealed-pool.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** Made while the test runs: no program has them in its own text. */
const marker = (name: string) => `${name}-${crypto.randomUUID()}`
const answered = marker('answer')
let folder: string
let logFile: string
let log: number
let gateway: TestGateway
let process: GatewayProcess
let server: FakeNode
let agent: TestAgent
let customer: TestCustomer
let collector: Collector

beforeAll(async () => {
  collector = startCollector()
  folder = mkdtempSync(join(tmpdir(), 'penstock-memory-'))
  logFile = join(folder, 'log')
  log = openSync(logFile, 'w')
  gateway = await startTestGateway({
    env: { SVC_LOG_LEVEL: 'debug', SVC_PROCESSES: '1', OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/` },
    launch: async (env) => {
      process = await spawnGateway(env, log)
      return process
    },
  })
  server = startFakeNode({ models: ['m-1'], name: `${answered} `, answer: { chunks: 8 } })
  customer = await gateway.customer()
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [server.url], runtimeTimes: patientTimes })
  await untilState(gateway, agent.nodeId, 'ready')
})
afterAll(async () => {
  await agent.remove()
  server.stop()
  await gateway.stop()
  collector.stop()
  closeSync(log)
  rmSync(folder, { recursive: true })
})

/** Looks while a stream stands still, and after whole answers. */
async function asked(client: OpenAI, prompt: string): Promise<{ readonly during: number; readonly after: number }> {
  const messages = [{ role: 'user' as const, content: `${prompt} `.repeat(50) }]
  server.setFaults({ kind: 'stall', afterChunks: 6 })
  const stream = await client.chat.completions.create({ model: 'm-1', messages, stream: true })
  const chunks = stream[Symbol.asyncIterator]()
  for (let at = 0; at < 4; at++) await chunks.next()
  const during = countInMemory(process.pid, prompt) + countInMemory(process.pid, answered)
  stream.controller.abort()
  await server.idle()
  server.clearFaults()
  for (let at = 0; at < 10; at++) await client.chat.completions.create({ model: 'm-1', messages })
  return { during, after: countInMemory(process.pid, prompt) + countInMemory(process.pid, answered) }
}

/** Of the server: all connections, and what works beside them. They share the pages that they have read and written. */
async function inDatabase(...markers: readonly string[]): Promise<number> {
  const rows = await gateway.database.sql<{ pid: number }[]>`select pid from pg_stat_activity`
  return rows.flatMap(({ pid }) => markers.map((marker) => countInMemory(pid, marker))).reduce((sum, n) => sum + n, 0)
}

test('§38: a marker in prompt and answer stands nowhere in gateway, log, spans and database; unsealed the search finds it', async () => {
  const options = { baseURL: `${gateway.url}/v1`, apiKey: customer.key, maxRetries: 0 }
  const fetch = sealedFetch({ gateway: gateway.url, trust: [agent.node.fingerprint] })
  const secret = marker('prompt')
  expect(await asked(new OpenAI({ ...options, fetch }), secret)).toEqual({ during: 0, after: 0 })
  const leaks = (await everyRow(gateway.database.url)).filter(
    ({ row }) => row.includes(secret) || row.includes(answered),
  )
  expect(leaks.map(({ table }) => table)).toEqual([])
  const metrics = await (await globalThis.fetch(`${gateway.url}/metrics`)).text()
  await waitUntil('the spans have come', () => collector.bodies.join('').includes('/v1/sealed/nodes'))
  expect(await inDatabase(secret, answered)).toBe(0)
  for (const text of [readFileSync(logFile, 'utf8'), metrics, collector.bodies.join('')]) {
    expect(text.includes(secret) || text.includes(answered)).toBe(false)
  }
  const told = marker('prompt')
  const unsealed = await asked(new OpenAI(options), told)
  expect(unsealed.during).toBeGreaterThan(0)
  // A connection that has been told a word has it, so that it would have been found.
  const word = marker('row')
  await gateway.database.sql`select ${word}::text`
  expect(await inDatabase(word)).toBeGreaterThan(0)
})
