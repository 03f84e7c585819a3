import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createPrivateJobs, type PrivateJobsClient, type SubmittedJob } from '../../src/client/private-jobs.ts'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { type CrashRig, expectEachOnce, startCrashRig } from '../support/gateways/crash-rig.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { enrollmentToken, untilState } from '../support/nodes/agents.ts'

const jobsMax = 200
const customersMax = 5
const gatewayKills = 20
/** Of each agent: the third attempt of a job is its last, so that every job can still end well. */
const killsPerAgent = 2
const root = resolve(import.meta.dir, '..', '..')
const model = 'm-1'

/** A customer with one machine: the agent as shipped in a process of its own, beside a model server. */
interface Machine {
  readonly client: PrivateJobsClient
  readonly server: FakeNode
  readonly folder: string
  readonly nodeId: string
  readonly fingerprint: string
  child: Bun.Subprocess<'ignore', 'pipe', 'ignore'>
  kills: number
}

let rig: CrashRig
const machines: Machine[] = []

async function startAgent(folder: string, server: FakeNode, ...more: readonly string[]) {
  const beside = ['--data-dir', folder, '--listen', '127.0.0.1:0', '--no-discover', '--runtime', server.url]
  const child = Bun.spawn([process.execPath, join(root, 'src/cli/main.ts'), 'node', ...beside, ...more], {
    cwd: tmpdir(),
    env: { PATH: process.env.PATH ?? '', HOME: folder },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [, nodeId = '', fingerprint = ''] = await firstMatch(
    child.stdout,
    /This node is (node_\w+)[\s\S]*Identity +(SHA256:\S+)/,
  )
  return { child, nodeId, fingerprint }
}

async function machine(): Promise<Machine> {
  const { gateway } = rig
  const { customerId, customerToken } = await gateway.customer()
  const server = startFakeNode({ models: [model], answer: { chunks: 3, firstTokenMs: 700 } })
  const folder = mkdtempSync(join(tmpdir(), 'penstock-agent-'))
  const { enrollment_token: token } = await enrollmentToken(gateway, customerId)
  const started = await startAgent(folder, server, '--gateway', gateway.url, '--token', token)
  await untilState(gateway, started.nodeId, 'ready')
  const client = createPrivateJobs({ baseUrl: gateway.url, customerId, customerToken, fetch: rig.fetch })
  return { client, server, folder, kills: 0, ...started }
}

beforeAll(async () => {
  rig = await startCrashRig()
  for (let i = 0; i < customersMax; i++) machines.push(await machine())
})
afterAll(async () => {
  for (const { child, server, folder } of machines) {
    child.kill('SIGKILL')
    await child.exited
    server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  await rig.stop()
})

const submit = ({ client, nodeId, fingerprint }: Machine): Promise<SubmittedJob> =>
  client.submit({
    nodeId,
    fingerprint,
    modelId: model,
    chat: { messages: [{ role: 'user', content: 'hello' }] },
    webhookUrl: rig.webhookUrl,
  })

/** One that works at this moment, and has not been killed too often; then the same machine again. */
async function crashAnAgent(): Promise<void> {
  const victim = await waitFor(
    'an agent at work',
    () => machines.find(({ kills, server }) => kills < killsPerAgent && server.stats().openRequests > 0) ?? null,
    120_000,
  )
  victim.kills++
  victim.child.kill('SIGKILL')
  await victim.child.exited
  victim.child = (await startAgent(victim.folder, victim.server)).child
}

test(`§10, §26: ${jobsMax} jobs while the gateway is killed ${gatewayKills} times and the agents ${customersMax * killsPerAgent}: each ends once`, async () => {
  const jobs: Promise<readonly [Machine, SubmittedJob]>[] = []
  const submitting = (async () => {
    for (let i = 0; i < jobsMax; i++) {
      const owner = machines[i % customersMax] as Machine
      jobs.push(submit(owner).then((job) => [owner, job] as const))
      await Bun.sleep(150)
    }
  })()
  const killingAgents = (async () => {
    for (let i = 0; i < customersMax * killsPerAgent; i++) {
      await Bun.sleep(500 + Math.random() * 2_000)
      await crashAnAgent()
    }
  })()
  for (let i = 0; i < gatewayKills; i++) {
    await Bun.sleep(100 + Math.random() * 900)
    await rig.crash()
  }
  await Promise.all([submitting, killingAgents])
  const all = await Promise.all(jobs)
  expect(new Set(all.map(([, { jobId }]) => jobId)).size).toBe(jobsMax)
  const settled = await expectEachOnce(rig, jobsMax)
  // What every customer opens is the answer of their own machine to their own request.
  const answer = { object: 'chat.completion', choices: [{ message: { content: 'fake-0 fake-1 fake-2 ' } }] }
  for (const [{ client }, job] of all) expect((await client.read(job)).outcome).toMatchObject({ answer })
  const [attempts] = await rig.gateway.database.sql`
    select count(*) filter (where attempt > 1)::int as again, max(attempt)::int as most from private_jobs`
  const runs = machines.reduce((sum, { server }) => sum + server.stats().requests, 0)
  console.table([
    {
      jobs: jobsMax,
      'gateway killed': gatewayKills,
      'agents killed': machines.reduce((sum, { kills }) => sum + kills, 0),
      'jobs of several attempts': attempts?.again,
      'most attempts': attempts?.most,
      'runs at model servers': runs,
      ...settled,
    },
  ])
  // The kills met work: some of it had to be done again, and was.
  expect(attempts?.again).toBeGreaterThan(0)
})
