import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type CrashRig, expectEachOnce, startCrashRig } from '../support/gateways/crash-rig.ts'
import { type JobNode, startJobNode } from '../support/nodes/job-node.ts'
import { createBody, jobsPath } from '../support/pools/job-pool.ts'

const jobsMax = 200
const kills = 20
const customersMax = 5

interface Owner {
  readonly headers: Readonly<Record<string, string>>
  readonly node: JobNode
}

let rig: CrashRig
const owners: Owner[] = []

async function owner(): Promise<Owner> {
  const { gateway } = rig
  const { customerId, customerToken } = await gateway.customer()
  const node = await startJobNode()
  node.nodeId = await gateway.node(node.url, { customerId, nodeClass: node.nodeClass })
  const identity = Buffer.from(node.identity.publicKey, 'base64url')
  await gateway.database.sql`
    update nodes set identity_key = ${identity}, transport_keys = ${JSON.stringify(node.keys)}::text::jsonb
    where node_id = ${node.nodeId}`
  return { headers: { 'x-svc-customer-id': customerId, 'x-svc-customer-token': customerToken }, node }
}

beforeAll(async () => {
  rig = await startCrashRig({ SVC_JOBS_RUNNING_PER_NODE_MAX: '16' })
  for (let i = 0; i < customersMax; i++) owners.push(await owner())
})
afterAll(async () => {
  await rig.stop()
  await Promise.all(owners.map(({ node }) => node.stop()))
})

async function submit({ headers, node }: Owner): Promise<string> {
  const response = await rig.fetch(rig.gateway.url + jobsPath, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ ...createBody(node), webhook_url: rig.webhookUrl }),
  })
  expect(response.status).toBe(202)
  return ((await response.json()) as { job_id: string }).job_id
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
    await rig.crash()
  }
  await submitting
  expect(new Set(await Promise.all(ids)).size).toBe(jobsMax)
  const settled = await expectEachOnce(rig, jobsMax)
  clearInterval(pulse)
  // No attempt was raised: the work of a killed gateway was attended, not done again.
  const runs = owners.reduce((sum, { node }) => sum + node.prompts.length, 0)
  console.table([{ jobs: jobsMax, kills, 'runs at nodes': runs, ...settled }])
  expect(runs).toBe(jobsMax)
})
