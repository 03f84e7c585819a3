import { afterAll, beforeAll, expect, test } from 'bun:test'
import { lists } from '../../src/actions/registry.ts'
import { sumRequests } from '../../src/actors/requests/request-traffic.ts'
import type { OpenDatabase } from '../../src/db/client.ts'
import { dayMs } from '../../src/time.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import {
  customerAt,
  insertAccounts,
  insertNodes,
  insertRecords,
  patientDatabase,
} from '../support/pools/large-installation.ts'
import { processorSeconds } from '../support/run/processor-time.ts'

/** Requests, receipts and charges each. */
const rows = Number(process.env.LARGE_ROWS ?? 1_000_000)
const asks = Number(process.env.LARGE_ASKS ?? 20)
/** A table with fewer rows may be read from end to end. */
const largeRows = 5_000
const withinMs = 3_600_000
const now = Date.now()

let gateway: TestGateway
let server: GatewayProcess
let patient: OpenDatabase
const percentile = (times: readonly number[], of: number) =>
  times.toSorted((a, b) => a - b)[Math.ceil(times.length * of) - 1] ?? Number.NaN

beforeAll(async () => {
  // A gateway makes the database; the one that is looked at starts with everything in it.
  gateway = await startTestGateway({
    env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' },
    launch: async (env) => {
      const started = await spawnGateway(env)
      await started.stop()
      return { url: started.url, stop: async () => {} }
    },
  })
  patient = await patientDatabase(gateway.database.url)
  await insertAccounts(patient.sql)
  await insertNodes(patient.sql)
}, withinMs)
afterAll(async () => {
  await server?.stop()
  await patient?.sql.end()
  await gateway?.stop()
}, withinMs)

const read = (path: string) => fetch(server.url + path, { headers: { 'x-svc-admin-token': gateway.tokens.admin } })

/** How often each large table has been read from end to end. What the gateway does by itself in the same time counts there, too. */
async function scans(): Promise<ReadonlyMap<string, number>> {
  const { sql } = gateway.database
  const found = await sql<{ name: string; scans: number }[]>`
    select s.relname as name, coalesce(s.seq_scan, 0)::int as scans from pg_stat_user_tables s join pg_class c on c.oid = s.relid
    where c.reltuples >= ${largeRows}`
  return new Map(found.map(({ name, scans: count }) => [name, count]))
}
/** What all of the gateway's backends have used of processors, s. */
async function backendSeconds(): Promise<number> {
  const backends = await gateway.database.sql<{ pid: number }[]>`
    select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`
  return backends.reduce((sum, { pid }) => sum + processorSeconds(pid), 0)
}

interface Asked {
  readonly status: number
  /** By the clock, one a question. */
  readonly times: readonly number[]
  /** Of processor time, a question. */
  readonly gatewayMs: number
  readonly databaseMs: number
  /** Of the tables that were read from end to end for every question, how often. */
  readonly ends: ReadonlyMap<string, number>
}

/** Asks for a list again and again. */
async function ask(path: string): Promise<Asked> {
  const before = await scans()
  const times: number[] = []
  let status = 0
  const [gatewayFrom, databaseFrom] = [processorSeconds(server.pid), await backendSeconds()]
  for (let turn = 0; turn < asks; turn++) {
    const at = performance.now()
    const response = await read(path)
    await response.text()
    times.push(performance.now() - at)
    status = response.status
  }
  const perAsk = (seconds: number) => (seconds * 1_000) / asks
  const gatewayMs = perAsk(processorSeconds(server.pid) - gatewayFrom)
  const databaseMs = perAsk((await backendSeconds()) - databaseFrom)
  await Bun.sleep(reportedWithinMs)
  const more = [...(await scans())].map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
  return { status, times, gatewayMs, databaseMs, ends: new Map(more.filter(([, count]) => count >= asks)) }
}

/** PostgreSQL reports what a backend has counted at most 10 s after its last statement (`PGSTAT_IDLE_INTERVAL`). */
const reportedWithinMs = 12_000

test(
  '§37: with a million requests, receipts and charges no list reads a large table from end to end',
  async () => {
    const began = performance.now()
    await insertRecords(patient, rows, now)
    // Else the gateway would do it while its lists are looked at.
    await sumRequests(patient.db, now, now - 8 * dayMs)
    server = await spawnGateway(gateway.env)
    const { sql } = gateway.database
    const [{ bytes } = { bytes: '' }] = await sql<
      { bytes: string }[]
    >`select pg_size_pretty(pg_database_size(current_database())) as bytes`
    process.stdout.write(`${rows} each in ${((performance.now() - began) / 1_000).toFixed(0)} s, ${bytes}\n`)
    const paths = [
      ...lists.map(({ path }) =>
        path.replace(/:customer_id/, customerAt(1)).replace(/:node_id/, `node_${'1'.padStart(26, '0')}`),
      ),
      `/v1/admin/customers?limit=100&before=${customerAt(50_000)}`,
      `/v1/admin/keys?customer_id=${customerAt(7)}`,
      `/v1/admin/customers/${customerAt(7)}`,
      ...['', 'limit=1000', `customer_id=${customerAt(9)}`, 'status=502', 'model=model-7'].map(
        (filter) => `/v1/admin/requests?${filter}`,
      ),
      ...['access-events', 'approval-events', 'command-events'].map((name) => `/v1/admin/${name}`),
      '/v1/public/log/checkpoint',
    ].filter((path) => !path.includes(':'))
    await Bun.sleep(reportedWithinMs)
    const scanned: string[] = []
    for (const path of paths) {
      const { status, times, gatewayMs, databaseMs, ends } = await ask(path)
      // A row alone has no agent behind it that could tell of its pulls.
      expect([path, status]).toEqual([path, path.endsWith('/pulls') ? 409 : 200])
      // What is done beside the lists, such as the sums of a week, is not done again when they are.
      const again = ends.size === 0 ? ends : (await ask(path)).ends
      const always = [...again].filter(([name]) => ends.has(name)).map(([name, count]) => `${name} ×${count}`)
      const [p50, p95] = [percentile(times, 0.5), percentile(times, 0.95)]
      process.stdout.write(
        `${path}: p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms; processor: gateway ${gatewayMs.toFixed(1)} ms, database ${databaseMs.toFixed(1)} ms ${always.join(', ')}\n`,
      )
      if (always.length > 0) scanned.push(`${path}: ${always.join(', ')}`)
    }
    expect(scanned).toEqual([])
  },
  withinMs,
)
