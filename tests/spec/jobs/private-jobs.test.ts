import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { commandLine } from '../../cli/command-line.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { everyRow } from '../../support/leaks/every-row.ts'
import {
  createBody,
  jobCustomer,
  jobNode,
  jobRequest,
  jobsPath,
  postJob,
  readJob,
} from '../../support/pools/job-pool.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const customer = await jobCustomer(gateway)
const node = await fixture(jobNode(gateway, customer))

const wait = { pollMs: 20 }

test('endpoints 6 and 7: a sealed request goes round and comes back sealed, with the node’s receipt', async () => {
  const job = await customer.client.submit(jobRequest(node))
  const seen: string[] = []
  const outcome = await customer.client.wait(job, { ...wait, onProgress: ({ status }) => seen.push(status) })
  expect(outcome).toMatchObject({
    status: 'completed',
    answer: { choices: [{ message: { content: 'the secret answer' } }] },
  })
  expect(seen.at(-1)).toBe('completed')
  expect(node.prompts.at(-1)).toBe('{"messages":[{"role":"user","content":"the secret question"}]}')
  const read = await readJob(gateway, customer, job.jobId)
  expect(read).toEqual({
    job_id: job.jobId,
    node_id: node.nodeId,
    model_id: node.model,
    status: 'completed',
    encrypted_request: expect.objectContaining({ version: 'svc-private-transport-v1' }),
    encrypted_response: expect.objectContaining({ version: 'svc-private-transport-v1' }),
    receipt_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    billing: null,
    webhook: null,
    created_at: job.createdAt,
    completed_at: expect.any(String),
  })
  const [receipt] = await gateway.database.sql`select * from receipts where receipt_hash = ${read.receipt_hash ?? ''}`
  expect(receipt).toMatchObject({
    issuer: 'node',
    kind: 'private_job',
    job_id: job.jobId,
    customer_id: customer.customerId,
    status: 'accepted',
  })
})

test('§14: the receipt keeps the signature of its node, and `verify receipt` finds it good', async () => {
  const job = await customer.client.submit(jobRequest(node))
  await customer.client.wait(job, wait)
  const { receipt_hash: hash } = await readJob(gateway, customer, job.jobId)
  const told = await json(await gateway.ask('GET', `/v1/billing/receipts/${hash}`, { headers: customer.headers }))
  expect(told).toMatchObject({ receipt_hash: hash, public_key: node.identity.publicKey })
  await using cli = await scoped(commandLine())
  const verify = (key: string) =>
    cli
      .run(['verify', 'receipt', '-', '--key', key, '--without-log', '--json'], { stdin: JSON.stringify(told) })
      .then(({ out }) => JSON.parse(out))
  const signature = (ok: boolean) => [
    {
      subject: hash,
      valid: ok,
      checks: expect.arrayContaining([expect.objectContaining({ name: 'signature', ok })]),
    },
  ]
  expect(await verify(node.identity.publicKey)).toMatchObject({ valid: true, verdicts: signature(true) })
  const other = signingKey(new Uint8Array(32).fill(77)).publicKey
  expect(await verify(other)).toMatchObject({ valid: false, verdicts: signature(false) })
})

test('§10: padding hides the length: the ciphertext is a multiple of 256 bytes and the tag', async () => {
  const job = await customer.client.submit(jobRequest(node))
  const { encrypted_request } = await readJob(gateway, customer, job.jobId)
  expect(Buffer.from(encrypted_request.ciphertext, 'base64url').length % 256).toBe(16)
  await customer.client.wait(job, wait)
})

test('endpoint 6: the create answer, with and without a job id', async () => {
  const own = await postJob(gateway, customer, createBody(node, { jobId: 'mine-1' }))
  expect(own.status).toBe(202)
  const answer = await json(own)
  expect(answer).toEqual({
    status: 'queued',
    job_id: 'mine-1',
    node_id: node.nodeId,
    command_id: expect.stringMatching(/^cmd_[0-9A-Z]{26}$/),
    billing: null,
    created_at: expect.any(String),
  })
  const made = await json(await postJob(gateway, customer, createBody(node)))
  expect(made.job_id).toMatch(/^job_[0-9A-Z]{26}$/)
})

test('§10: the same request again is the same job, with and without a job id', async () => {
  for (const body of [createBody(node), createBody(node, { jobId: 'again' })]) {
    const first = await json(await postJob(gateway, customer, body))
    const second = await postJob(gateway, customer, body)
    expect(second.status).toBe(202)
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(await json(second)).toEqual(first)
  }
  const twice = createBody(node)
  const both = await Promise.all([postJob(gateway, customer, twice), postJob(gateway, customer, twice)])
  const [one, other] = await Promise.all(both.map(json))
  expect(one).toEqual(other ?? {})
})

const countJobs = async () => Number((await gateway.database.sql`select count(*) as n from private_jobs`)[0]?.n)

test('§10: a job id is taken once, an ephemeral key once per node; nothing is written for the refused', async () => {
  const body = createBody(node, { jobId: 'taken' })
  expect((await postJob(gateway, customer, body)).status).toBe(202)
  const before = await countJobs()
  const other = await postJob(gateway, customer, createBody(node, { jobId: 'taken' }))
  expect([other.status, (await json(other)).code]).toEqual([409, 'job_id_conflict'])
  const replayed = await postJob(gateway, customer, { ...body, job_id: 'other', encrypted_request: withoutHash(body) })
  expect([replayed.status, (await json(replayed)).code]).toEqual([409, 'envelope_replayed'])
  expect(await countJobs()).toBe(before)
})

const withoutHash = ({ encrypted_request: { aad_hash: _, ...rest } }: ReturnType<typeof createBody>) => rest

test('§10: a tampered envelope is the node’s to find: decrypt_failed, and nothing more', async () => {
  const body = createBody(node)
  const raw = Buffer.from(body.encrypted_request.ciphertext, 'base64url')
  raw[0] = (raw[0] ?? 0) ^ 1
  const tampered = { ...body, encrypted_request: { ...body.encrypted_request, ciphertext: raw.toString('base64url') } }
  const { job_id } = await json(await postJob(gateway, customer, tampered))
  await waitUntil('it failed', async () => (await readJob(gateway, customer, String(job_id))).status === 'failed')
  const read = await readJob(gateway, customer, String(job_id))
  expect(read.error).toEqual({ code: 'decrypt_failed' })
  expect(read).not.toHaveProperty('encrypted_response')
  expect(read).not.toHaveProperty('receipt_hash')
})

test('§4, §19: without credentials, with wrong ones, and another customer’s job or node', async () => {
  const body = createBody(node)
  const none = await gateway.ask('POST', jobsPath, { json: body })
  expect([none.status, (await json(none)).code]).toEqual([401, 'missing_credentials'])
  const wrong = await gateway.ask('POST', jobsPath, {
    json: body,
    headers: { ...customer.headers, 'x-svc-customer-token': 'x' },
  })
  expect([wrong.status, (await json(wrong)).code]).toEqual([401, 'invalid_credentials'])
  const stranger = await jobCustomer(gateway)
  const foreign = await postJob(gateway, stranger, body)
  expect([foreign.status, (await json(foreign)).code]).toEqual([404, 'node_not_found'])
  const { job_id } = await json(await postJob(gateway, customer, body))
  const read = await gateway.ask('GET', `${jobsPath}/${job_id}`, { headers: stranger.headers })
  expect([read.status, (await json(read)).code]).toEqual([404, 'job_not_found'])
  const keys = await gateway.ask('GET', `/v1/api/private-inference/nodes/${node.nodeId}/keys`, {
    headers: stranger.headers,
  })
  expect([keys.status, (await json(keys)).code]).toEqual([404, 'node_not_found'])
})

test.each([{ jobId: 'independent-1' }, {}])(
  'docs/protocol.md alone, with OpenSSL, makes the round trip: %j',
  async (more) => {
    const { customerId, customerToken } = customer
    const { nodeId, fingerprint, modelId, chat } = jobRequest(node)
    const given = { baseUrl: gateway.url, customerId, customerToken, nodeId, fingerprint, modelId, chat, ...more }
    const script = join(import.meta.dir, '../../support/clients/independent-client.mjs')
    const child = Bun.spawn(['node', script, JSON.stringify(given)], { stderr: 'inherit' })
    const answer = JSON.parse(await new Response(child.stdout).text())
    expect(answer).toMatchObject({ choices: [{ message: { content: 'the secret answer' } }] })
    expect(node.prompts.at(-1)).toBe(JSON.stringify(chat))
  },
)

test('§18: neither prompt nor answer is in any table or in the log', async () => {
  const job = await customer.client.submit(jobRequest(node))
  await customer.client.wait(job, wait)
  const everything = JSON.stringify([await everyRow(gateway.database.url), gateway.logged()])
  expect(everything).toContain(job.jobId)
  for (const text of ['the secret question', 'the secret answer', 'InRoZSBzZWNyZXQ']) {
    expect(everything).not.toContain(text)
  }
})
