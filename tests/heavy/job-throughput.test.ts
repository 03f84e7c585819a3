import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { spawnGateway } from '../support/gateways/gateway-process.ts'
import { type JobNode, startJobNode } from '../support/nodes/job-node.ts'
import { createBody, jobsPath } from '../support/pools/job-pool.ts'

const queuedMax = 5_000
const finishedMax = 100_000
const customersMax = 60
const nodesMax = 6
const creatingMax = 8
const drainMs = 400_000
const idleMs = 15_000
/** An idle backend tells its numbers this late at most, and a little more. */
const statisticsMs = 11_000
const settings = { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_POLL_INTERVAL_MS: '1000', SVC_METRICS_PUBLIC: 'true' }

let gateways: readonly [TestGateway, TestGateway]
let nodes: readonly JobNode[]
let customers: readonly Readonly<Record<string, string>>[]

async function register(gateway: TestGateway, customerId: string): Promise<JobNode> {
  const node = await startJobNode()
  node.nodeId = await gateway.node(node.url, { customerId, nodeClass: node.nodeClass })
  const identity = Buffer.from(node.identity.publicKey, 'base64url')
  await gateway.database.sql`
    update nodes set identity_key = ${identity}, transport_keys = ${JSON.stringify(node.keys)}::text::jsonb
    where node_id = ${node.nodeId}`
  return node
}

beforeAll(async () => {
  const first = await startTestGateway({ env: settings, launch: spawnGateway })
  gateways = [first, await startTestGateway({ env: settings, launch: spawnGateway, beside: first })]
  const made = await Promise.all(Array.from({ length: customersMax }, () => first.customer()))
  customers = made.map(({ customerId, customerToken }) => ({
    'x-svc-customer-id': customerId,
    'x-svc-customer-token': customerToken,
  }))
  nodes = await Promise.all(Array.from({ length: nodesMax }, () => register(first, made[0]?.customerId ?? '')))
}, 120_000)
afterAll(async () => {
  await gateways[1].stop()
  await gateways[0].stop()
  await Promise.all(nodes.map((node) => node.stop()))
})

/** What waits for the nodes is not claimed: they are drained on both gateways, or ready on both. */
async function all(verb: 'drain' | 'resume', state: string): Promise<void> {
  for (const { nodeId } of nodes) await gateways[0].admin('POST', `/v1/admin/nodes/${nodeId}/${verb}`, {})
  for (const gateway of gateways) {
    for (const { nodeId } of nodes) {
      const path = `/v1/admin/nodes/${nodeId}`
      await waitFor(`${verb} of ${nodeId}`, async () => (await gateway.admin(`GET`, path)).state === state)
    }
  }
}

/**
 * Through the interface, with all its checks and caps. A node takes jobs of its owner alone, so the six of them belong to
 * one customer after the other.
 */
async function queueAll(): Promise<void> {
  const { sql } = gateways[0].database
  const perCustomer = queuedMax / customersMax
  for (const [c, headers] of customers.entries()) {
    await sql`update nodes set customer_id = ${headers['x-svc-customer-id'] ?? ''}`
    const until = Math.round((c + 1) * perCustomer)
    let next = Math.round(c * perCustomer)
    const create = async () => {
      while (next < until) {
        const at = next++
        const node = nodes[at % nodesMax] as JobNode
        const response = await fetch((gateways[at % 2] as TestGateway).url + jobsPath, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify(createBody(node)),
        })
        expect(response.status).toBe(202)
        await response.arrayBuffer()
      }
    }
    await Promise.all(Array.from({ length: creatingMax }, create))
  }
}

interface Load {
  readonly claims: number
  readonly statements: number
  /** PostgreSQL's own time with statements of this database, ms. */
  readonly busyMs: number
  /** Entries read of the index that claims go by. */
  readonly entries: number
}

async function load(): Promise<Load> {
  const { sql } = gateways[0].database
  const texts = await Promise.all(gateways.map(async ({ url }) => (await fetch(`${url}/metrics`)).text()))
  const claims = texts.map((text) => Number(/^svc_job_claims_total (\d+)$/m.exec(text)?.[1] ?? Number.NaN))
  const [database] = await sql`
    select xact_commit::int as statements, active_time as busy from pg_stat_database where datname = current_database()`
  const [index] = await sql`
    select idx_tup_read::int as entries from pg_stat_user_indexes where indexrelname = 'private_jobs_due'`
  return {
    claims: claims.reduce((sum, count) => sum + count, 0),
    statements: database?.statements,
    busyMs: database?.busy,
    entries: index?.entries,
  }
}

/** What a stretch of time cost, once every backend has told its numbers. */
async function cost(work: () => Promise<unknown>): Promise<Load & { readonly seconds: number }> {
  await Bun.sleep(statisticsMs)
  const before = await load()
  const began = performance.now()
  await work()
  const seconds = (performance.now() - began) / 1_000
  const { claims } = await load()
  await Bun.sleep(statisticsMs)
  const after = await load()
  return {
    seconds,
    claims: claims - before.claims,
    statements: after.statements - before.statements,
    busyMs: after.busyMs - before.busyMs,
    entries: after.entries - before.entries,
  }
}

const runs = () => nodes.reduce((sum, { prompts }) => sum + prompts.length, 0)

async function drain(): Promise<Load & { readonly seconds: number }> {
  const { sql } = gateways[0].database
  await all('drain', 'live')
  await queueAll()
  await sql.unsafe('vacuum analyze private_jobs')
  const [queued] = await sql`select count(*)::int as n from private_jobs where status = 'queued'`
  expect(queued?.n).toBe(queuedMax)
  const wanted = runs() + queuedMax
  return cost(async () => {
    await all('resume', 'ready')
    // Seen at the nodes first: asking the database all the while would be a load of its own.
    await waitFor('every job to be run', () => runs() >= wanted, drainMs)
    const open = async () => sql`select 1 from private_jobs where completed_at is null and customer_id > '' limit 1`
    await waitFor('every job to be completed', async () => (await open()).length === 0)
  })
}

/** Copies of ended rows: the table of a gateway that has been at work for long. */
async function fill(): Promise<void> {
  const { sql } = gateways[0].database
  const [has] = await sql`select count(*)::int as n from private_jobs`
  const columns = (
    await sql`select column_name from information_schema.columns
      where table_schema = 'public' and table_name = 'private_jobs' order by ordinal_position`
  ).map(({ column_name: name }) => String(name))
  const own: Readonly<Record<string, string>> = {
    command_id: "'cmd_f' || i",
    job_id: "'f' || i",
    fingerprint: "sha256(('f' || i)::bytea)",
  }
  await sql.unsafe(`
    insert into private_jobs (${columns.join(', ')})
    select ${columns.map((name) => own[name] ?? `one.${name}`).join(', ')}
    from generate_series(1, ${finishedMax - has?.n}) as i, (select * from private_jobs limit 1) as one`)
  await sql.unsafe('vacuum analyze private_jobs')
}

const rounded = (value: number, digits = 1) => Number(value.toFixed(digits))
const row = (
  finished: number,
  { seconds, claims, statements, busyMs, entries }: Awaited<ReturnType<typeof drain>>,
) => ({
  'finished rows': finished,
  'jobs/s': Math.round(queuedMax / seconds),
  'claims/s': rounded(claims / seconds),
  'jobs per claim': rounded(queuedMax / claims),
  'index entries per claim': rounded(entries / claims),
  'statements/s': Math.round(statements / seconds),
  'statements per job': rounded(statements / queuedMax),
  'database ms per job': rounded(busyMs / queuedMax, 2),
})

test(`§26: two gateways, ${queuedMax} jobs of ${customersMax} customers for ${nodesMax} nodes, over 0 and ${finishedMax} finished rows`, async () => {
  const fresh = await drain()
  await fill()
  const full = await drain()
  const idle = await cost(() => Bun.sleep(idleMs))
  console.table([row(0, fresh), row(finishedMax, full)])
  const quietSeconds = (idleMs + statisticsMs) / 1_000
  console.table([
    {
      'idle, both gateways': 'all their work',
      'claims/s': rounded(idle.claims / idle.seconds),
      'statements/s': rounded(idle.statements / quietSeconds),
      'database ms/s': rounded(idle.busyMs / quietSeconds, 2),
    },
  ])
  const { sql } = gateways[0].database
  const ended = await sql`select status, count(*)::int as n from private_jobs group by status`
  expect(ended.map(({ status, n }) => [status, n])).toEqual([['completed', finishedMax + queuedMax]])
  const [receipts] = await sql`select count(*)::int as n, count(distinct job_id)::int as jobs from receipts`
  expect([receipts?.n, receipts?.jobs]).toEqual([2 * queuedMax, 2 * queuedMax])
  expect(runs()).toBe(2 * queuedMax)
  // A claim reads what is due and what was due a moment ago, never what has ended: that would be thousands.
  expect(full.entries / full.claims).toBeLessThan(100)
  expect(full.statements).toBeLessThan(1.5 * fresh.statements)
}, 900_000)
