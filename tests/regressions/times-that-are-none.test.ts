import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { newId } from '../../src/ids.ts'
import { readNodeReceipt } from '../../src/protocol/receipts/node-receipt.ts'
import { areTimesOfWork } from '../../src/protocol/receipts/receipt-times.ts'
import { signingKey, verifyKey } from '../../src/protocol/signing/ed25519.ts'
import type { NodeReceipt } from '../../src/protocol/wire/nodes/agent.ts'
import { isoTime } from '../../src/time.ts'
import { startTestGateway as startPaidGateway } from '../support/gateways/gateway.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/http-gateway.ts'
import { enrollmentToken, untilState } from '../support/nodes/agents.ts'
import { type JobNode, signedReceipt } from '../support/nodes/job-node.ts'
import { agentRuntime, agentUsage, startScriptedAgent } from '../support/nodes/scripted-agent.ts'
import { createBody, type JobCustomer, jobCustomer, jobNode, postJob, readJob } from '../support/pools/job-pool.ts'
import { scoped } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

// A node signed a time that does not exist (30 February, 24:00), or one of another year. A chat took the first kind where it lay near, a
// private job took any. The database keeps a moment and not the text that was hashed, so the receipt lost its hash: the log refused
// it as forged, `audit books` found a fault, and a year that PostgreSQL does not have made the job end never.

const minute = 60_000
/** Midnight, 2 March of a year without 29 February. */
const midnight = Date.parse('2027-03-02T00:00:00.000Z')

describe('times of a receipt', () => {
  const span = { fromMs: midnight - minute, endFromMs: midnight, toMs: midnight }
  const real = {
    startedAt: isoTime(midnight - minute),
    completedAt: isoTime(midnight),
    issuedAt: isoTime(midnight),
  }

  test('that exist, follow each other and are near are taken, with and without that of the issue', () => {
    expect(areTimesOfWork(real, span)).toBe(true)
    expect(areTimesOfWork({ ...real, issuedAt: null }, span)).toBe(true)
    expect(areTimesOfWork({ ...real, startedAt: isoTime(span.fromMs - 5 * minute) }, span)).toBe(true)
    expect(areTimesOfWork({ ...real, issuedAt: isoTime(midnight + 5 * minute) }, span)).toBe(true)
  })

  test.each([
    ['30 February', '2027-02-30T00:00:00.000Z'],
    ['24:00', '2027-03-01T24:00:00.000Z'],
    ['a leap second', '2027-03-01T23:59:60.000Z'],
    ['no three digits', '2027-03-02T00:00:00Z'],
    ['another zone', '2027-03-02T01:00:00.000+01:00'],
    ['a year that PostgreSQL does not have', '0000-01-01T00:00:00.000Z'],
    ['a far year', '9999-01-01T00:00:00.000Z'],
    ['no time', 'now'],
  ])('%s is none, wherever it stands', (_, text) => {
    for (const name of ['startedAt', 'completedAt', 'issuedAt'] as const)
      expect([name, areTimesOfWork({ ...real, [name]: text }, span)]).toEqual([name, false])
  })

  test('too early, too late and out of order are none', () => {
    for (const wrong of [
      { startedAt: isoTime(span.fromMs - 5 * minute - 1) },
      { completedAt: isoTime(midnight - 5 * minute - 1), startedAt: isoTime(midnight - 5 * minute - 2) },
      { issuedAt: isoTime(midnight + 5 * minute + 1) },
      { startedAt: isoTime(midnight + 1) },
      { completedAt: isoTime(midnight + 1) },
    ])
      expect([wrong, areTimesOfWork({ ...real, ...wrong }, span)]).toEqual([wrong, false])
  })

  test('a receipt over 24:00 that its node has signed is none at midnight', () => {
    const identity = signingKey(new Uint8Array(32).fill(7))
    const key = verifyKey(identity.publicKey)
    if (key === null) throw new Error('no key')
    const seen = {
      requestId: 'req_1',
      jobId: null,
      kind: 'hosted_chat' as const,
      nodeId: 'node_1',
      nodeClass: 'gpu',
      runtimeId: 'rt_1',
      runtimeKind: 'vllm',
      modelId: 'm',
      promptTokens: 1,
      completionTokens: 1,
    }
    const signed = (more: object) => signedReceipt(identity, { ...seen, issuer: 'node', ...real, ...more })
    expect(readNodeReceipt(signed({}), seen, key, span)).not.toBeNull()
    expect(readNodeReceipt(signed({ issuedAt: '2027-03-01T24:00:00.000Z' }), seen, key, span)).toBeNull()
  })
})

describe('private jobs', () => {
  let gateway: TestGateway
  let customer: JobCustomer
  let node: JobNode
  beforeAll(async () => {
    gateway = await startTestGateway({ SVC_POLL_INTERVAL_MS: '100' })
    customer = await jobCustomer(gateway)
    node = await jobNode(gateway, customer)
  })
  afterAll(async () => {
    await gateway?.stop()
    await node?.stop()
  })

  const signedWith = (wire: NodeReceipt['receipt'], more: object) =>
    signedReceipt(node.identity, {
      issuer: 'node',
      requestId: wire.request_id,
      jobId: wire.job_id,
      kind: 'private_job',
      nodeId: wire.node_id,
      nodeClass: wire.node_class,
      runtimeId: wire.runtime_id,
      runtimeKind: wire.runtime_kind,
      modelId: wire.model_id,
      promptTokens: wire.prompt_tokens,
      completionTokens: wire.completion_tokens,
      startedAt: wire.started_at,
      completedAt: wire.completed_at,
      ...more,
    })

  test.each([
    ['a moment that does not exist', { issuedAt: '2027-02-30T00:00:00.000Z' }],
    ['a year that PostgreSQL does not have', { startedAt: '0000-01-01T00:00:00.000Z' }],
    ['of another year', { issuedAt: '2099-01-01T00:00:00.000Z' }],
  ])('%s: the result is none, and leaves no receipt', async (_, more) => {
    node.turn({
      kind: 'lie',
      with: (state) => ({ ...state, receipt: signedWith(state.receipt.receipt, more) }),
    })
    const created = (await (await postJob(gateway, customer, createBody(node))).json()) as { job_id: string }
    const read = () => readJob(gateway, customer, created.job_id)
    await waitUntil('the job has ended', async () => ['failed', 'completed'].includes((await read()).status), 10_000)
    expect((await read()).error).toEqual({ code: 'result_invalid' })
    expect((await gateway.database.sql`select 1 from receipts where job_id = ${created.job_id}`).length).toBe(0)
  })
})

test('a chat gets the receipt of the gateway, and the books stay sound', async () => {
  await using gateway = await scoped(
    startPaidGateway({
      env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_RECEIPT_FLUSH_MS: '10', SVC_LOG_INTERVAL_MS: '50' },
    }),
  )
  const customer = await gateway.customer()
  const token = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
  await using agent = await scoped(
    startScriptedAgent(gateway.url, token.enrollment_token, [agentRuntime(newId('rt'), ['m'])]),
  )
  await untilState(gateway, agent.nodeId, 'ready')
  agent.vouch(({ headers }) => {
    const now = isoTime(Date.now())
    return signedReceipt(agent.identity, {
      issuer: 'node',
      requestId: headers.get('x-svc-request-id') ?? '',
      jobId: null,
      kind: 'hosted_chat',
      nodeId: agent.nodeId,
      nodeClass: 'gpu',
      runtimeId: headers.get('x-svc-runtime-id') ?? '',
      runtimeKind: 'vllm',
      modelId: 'm',
      promptTokens: agentUsage.prompt_tokens,
      completionTokens: agentUsage.completion_tokens,
      startedAt: '2026-02-30T00:00:00.000Z',
      completedAt: now,
      issuedAt: now,
    })
  })
  const answer = await gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content: 'hello' }] })
  const { svc } = (await answer.json()) as { svc: { receipt_hash: string } }
  await waitUntil('the log has the receipt', async () => {
    const { sql } = gateway.database
    const [row] =
      await sql`select r.issuer from receipts r join log_receipts l on r.seq > l.from_seq and r.seq <= l.to_seq
        where r.receipt_hash = ${svc.receipt_hash}`
    return row?.issuer === 'gateway'
  })
  expect(await gateway.admin('GET', '/v1/admin/ledger/check')).toMatchObject({ sound: true, faults: [] })
})
