import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join, resolve } from 'node:path'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateway.ts'
import { firstMatch } from '../support/gateway-process.ts'
import { type JobNode, startJobNode } from '../support/job-node.ts'
import { createBody, jobsPath } from '../support/job-pool.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

const jobsMax = 200
const kills = 20
const customersMax = 5
const root = resolve(import.meta.dir, '..', '..')

interface Owner {
  readonly headers: Readonly<Record<string, string>>
  readonly customerId: string
  readonly node: JobNode
}

let gateway: TestGateway
let receiver: WebhookReceiver
let child: Bun.Subprocess<'ignore', 'pipe', 'inherit'>
const owners: Owner[] = []

/** Starts it, or starts it again on the same port and database. */
async function launch(env: Readonly<Record<string, string>>): Promise<string> {
  child = Bun.spawn([process.execPath, join(root, 'tests/support/job-gateway-main.ts')], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env.PATH ?? '',
      TEST_RECEIVER_PORT: String(receiver.port),
      TEST_RECEIVER_CERTIFICATE: receiver.ca,
      ...env,
    },
  })
  return (await firstMatch(child.stdout, /listening (http:\S+) end/))[1] ?? ''
}

function freePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = probe
  probe.stop(true)
  return port
}

async function owner(): Promise<Owner> {
  const made = await gateway.admin<{ customer_id: string; customer_token: string }>('POST', '/v1/admin/customers', {
    display_name: 'test',
  })
  const node = await startJobNode()
  node.nodeId = await gateway.node(node.url, { customerId: made.customer_id, nodeClass: node.nodeClass })
  const identity = Buffer.from(node.identity.publicKey, 'base64url')
  await gateway.database.sql`
    update nodes set identity_key = ${identity}, transport_keys = ${JSON.stringify(node.keys)}::text::jsonb
    where node_id = ${node.nodeId}`
  const headers = { 'x-svc-customer-id': made.customer_id, 'x-svc-customer-token': made.customer_token }
  return { headers, customerId: made.customer_id, node }
}

beforeAll(async () => {
  receiver = await startWebhookReceiver()
  gateway = await startTestGateway({
    env: {
      SVC_PORT: String(freePort()),
      SVC_LOG_LEVEL: 'silent',
      SVC_ADMIN_RPM_PER_TOKEN: '1000000',
      SVC_JOBS_RUNNING_PER_NODE_MAX: '16',
    },
    launch: async (env) => ({
      url: await launch(env),
      stop: async () => {
        child.kill('SIGTERM')
        await child.exited
      },
    }),
  })
  for (let i = 0; i < customersMax; i++) owners.push(await owner())
})
afterAll(async () => {
  await gateway.stop()
  await Promise.all(owners.map(({ node }) => node.stop()))
  await receiver.stop()
})

/** As a careful client does: the same bytes until there is an answer. */
async function submit({ headers, node }: Owner): Promise<string> {
  const body = JSON.stringify({ ...createBody(node), webhook_url: 'https://hooks.example.com/in' })
  for (;;) {
    try {
      const response = await fetch(gateway.url + jobsPath, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body,
        signal: AbortSignal.timeout(5_000),
      })
      if (response.status === 202) return ((await response.json()) as { job_id: string }).job_id
      if (response.status < 500 && response.status !== 429) throw new TypeError(`refused: ${response.status}`)
    } catch (error) {
      if (error instanceof TypeError && error.message.startsWith('refused')) throw error
    }
    await Bun.sleep(20)
  }
}

test(`§10, §26: ${jobsMax} jobs and their webhooks while the gateway is killed ${kills} times: each ends once`, async () => {
  for (const { node } of owners) {
    for (let i = 0; i < jobsMax; i++) if (Math.random() < 0.3) node.turn({ kind: 'hold' })
  }
  const pulse = setInterval(() => {
    for (const { node } of owners) node.release()
  }, 300)
  const ids: Promise<string>[] = []
  const submitting = (async () => {
    for (let i = 0; i < jobsMax; i++) {
      const next = owners[i % customersMax]
      if (next !== undefined) ids.push(submit(next))
      await Bun.sleep(60)
    }
  })()
  for (let i = 0; i < kills; i++) {
    await Bun.sleep(100 + Math.random() * 900)
    child.kill('SIGKILL')
    await child.exited
    await launch(gateway.env)
  }
  await submitting
  const jobIds = await Promise.all(ids)
  expect(new Set(jobIds).size).toBe(jobsMax)
  const { sql } = gateway.database
  await waitFor(
    'every event to be delivered',
    async () => {
      const [row] = await sql`select count(*)::int as n from webhook_deliveries where status = 'delivered'`
      return row?.n === jobsMax
    },
    300_000,
  )
  clearInterval(pulse)

  const statuses = await sql`select status, count(*)::int as n from private_jobs group by status`
  expect(statuses.map(({ status, n }) => [status, n])).toEqual([['completed', jobsMax]])
  const receipts = await sql`select count(*)::int as n, count(distinct job_id)::int as jobs from receipts`
  expect([receipts[0]?.n, receipts[0]?.jobs]).toEqual([jobsMax, jobsMax])
  const [events] = await sql`select count(*)::int as n, count(distinct command_id)::int as jobs from webhook_deliveries`
  expect([events?.n, events?.jobs]).toEqual([jobsMax, jobsMax])
  const perEvent = new Map<string, number>()
  for (const { headers, body } of receiver.received) {
    const key = `${headers['webhook-id']} ${JSON.parse(body).data.job_id}`
    perEvent.set(key, (perEvent.get(key) ?? 0) + 1)
  }
  expect(perEvent.size).toBe(jobsMax)
  // No attempt was raised: the work of a killed gateway was attended, not done again.
  const runs = owners.reduce((sum, { node }) => sum + node.prompts.length, 0)
  const deliveries = [...perEvent.values()]
  console.table([
    {
      jobs: jobsMax,
      kills,
      'runs at nodes': runs,
      deliveries: receiver.received.length,
      'most deliveries of one event': Math.max(...deliveries),
    },
  ])
  expect(runs).toBe(jobsMax)
}, 600_000)
