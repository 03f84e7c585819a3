import { afterAll, beforeEach, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createPrivateJobs } from '../../src/client/private-jobs.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { createLog } from '../../src/log.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { fixture } from '../support/run/fixture.ts'

let agent: TestAgent

let logged = ''
const log = createLog('debug', (text) => {
  logged += text
})
afterAll(async () => {
  await agent?.remove()
})
const gateway = await fixture(startTestGateway())
const server = await fixture(startFakeNode({ models: ['m-1'], answer: { chunks: 3 } }))
const customer = await gateway.customer()
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [server.url], log })
await untilState(gateway, agent.nodeId, 'ready')
const client = createPrivateJobs({ baseUrl: gateway.url, ...customer })
beforeEach(() => server.clearFaults())

const request = (more: object = {}) => ({
  nodeId: agent.nodeId,
  fingerprint: agent.node.fingerprint,
  modelId: 'm-1',
  chat: { messages: [{ role: 'user', content: 'for this machine alone' }] },
  ...more,
})
const wait = { pollMs: 20 }

test('§10, §22: a sealed job goes through the tunnel to the agent’s runtime and back, with the agent’s receipt', async () => {
  const job = await client.submit(request({ jobId: 'mine' }))
  const outcome = await client.wait(job, wait)
  expect(outcome).toMatchObject({
    status: 'completed',
    answer: { object: 'chat.completion', model: 'm-1', choices: [{ message: { content: 'fake-0 fake-1 fake-2 ' } }] },
  })
  expect(outcome).not.toHaveProperty('answer.svc')
  const [receipt] = await gateway.database.sql`select * from receipts where job_id = 'mine'`
  expect(receipt).toMatchObject({ issuer: 'node', kind: 'private_job', node_id: agent.nodeId, status: 'accepted' })
  expect(Date.parse(receipt?.issued_at)).toBeGreaterThanOrEqual(Date.parse(receipt?.completed_at))
})

test('docs/protocol.md alone, with OpenSSL, makes the round trip to a real agent', async () => {
  const { customerId, customerToken } = customer
  const given = { baseUrl: gateway.url, customerId, customerToken, ...request() }
  const script = join(import.meta.dir, '../support/clients/independent-client.mjs')
  const child = Bun.spawn(['node', script, JSON.stringify(given)], { stderr: 'inherit' })
  expect(JSON.parse(await new Response(child.stdout).text())).toMatchObject({ object: 'chat.completion' })
})

const attemptOf = async (commandId: string) =>
  (await gateway.admin<{ attempt: number }>('GET', `/v1/admin/commands/${commandId}`)).attempt

test('§10: a runtime that fails takes another attempt; what it says of the request is a sealed answer', async () => {
  server.setFaults({ kind: 'status500', times: 1 })
  const job = await client.submit(request())
  expect((await client.wait(job, wait)).status).toBe('completed')
  expect(await attemptOf(job.commandId)).toBe(2)
  server.setFaults({ kind: 'status400', times: 1 })
  const refused = await client.wait(await client.submit(request()), wait)
  expect(refused).toMatchObject({ status: 'completed', answer: { error: { code: 'invalid_request' } } })
})

test('§10: an agent that ends under a job loses neither the job nor what it has answered', async () => {
  const before = await client.submit(request())
  await client.wait(before, wait)
  server.setFaults({ kind: 'slowFirstToken', ms: 60_000, times: 1 })
  const job = await client.submit(request())
  await waitFor('the job to run', async () => (await client.read(job)).status === 'running')
  await agent.node.stop()
  agent = await agent.restart()
  expect((await client.wait(job, wait)).status).toBe('completed')
  expect(await attemptOf(job.commandId)).toBe(2)
  expect(await attemptOf(before.commandId)).toBe(1)
})

test('§22: command routes are the gateway’s alone', async () => {
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const response = await fetch(`${agent.node.url}/svc/v1/commands/cmd_${'0'.repeat(26)}`, { method })
    expect([method, response.status]).toEqual([method, 401])
  }
})

test('§18: nothing of prompts and answers is in the agent’s log or on its disk', async () => {
  const { folder } = agent.node
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
  const kept = files.map((path) => readFileSync(path, 'latin1')).join('\n')
  log.flush()
  // It is there, as it was sealed.
  expect(kept).toContain('"ciphertext"')
  expect(logged).toContain('/svc/v1/commands')
  for (const text of ['for this machine alone', 'fake-0', 'Zm9yIHRoaXMgbWFjaGluZ']) {
    expect(kept).not.toContain(text)
    expect(logged).not.toContain(text)
  }
})
