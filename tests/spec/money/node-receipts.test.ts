import { afterEach, describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newId } from '../../../src/ids.ts'
import { type Receipt, receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { toBase64url } from '../../../src/protocol/signing/base64url.ts'
import { type SigningKey, signingKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { isoTime } from '../../../src/time.ts'
import { EventStreamReader, readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { type AgentCall, agentRuntime, agentUsage, startScriptedAgent } from '../../support/nodes/scripted-agent.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(
  startTestGateway({
    env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_METRICS_PUBLIC: 'true', SVC_RECEIPT_FLUSH_MS: '10' },
  }),
)
const customer = await gateway.customer()
const server = await fixture(startFakeNode({ models: ['m-1'] }))
const token = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({ gatewayUrl: gateway.url, token: token.enrollment_token, runtimes: [server.url] }),
)
const other = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
const liar = await fixture(
  startScriptedAgent(gateway.url, other.enrollment_token, [agentRuntime(newId('rt'), ['lies'])]),
)
for (const id of [agent.nodeId, liar.nodeId]) await untilState(gateway, id, 'ready')

afterEach(() => server.setAnswer({ chunks: 5, intervalMs: 0 }))

interface ReceiptRow {
  readonly receipt_hash: string
  readonly issuer: string
  readonly request_id: string
  readonly job_id: string | null
  readonly node_id: string
  readonly node_class: string
  readonly runtime_id: string
  readonly completion_tokens: number
  readonly signature_ed25519: string | null
}

const ask = (model: string, more: object = {}) =>
  gateway.chat(customer.key, { model, messages: [{ role: 'user', content: 'hello' }], ...more })
const receiptOf = (column: 'receipt_hash' | 'request_id', value: unknown): Promise<ReceiptRow> =>
  waitFor('the receipt', async () => {
    const { sql } = gateway.database
    const [row] = await sql<ReceiptRow[]>`select * from receipts where ${sql(column)} = ${String(value)}`
    return row
  })
const svcOf = async (response: Response) => ((await response.json()) as { svc: Record<string, unknown> }).svc
async function invalidReceipts(): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  return Number(/^svc_upstream_failures_total\{code="receipt_invalid"\} (\d+)$/m.exec(text)?.[1] ?? 0)
}
async function identityOf(nodeId: string) {
  const [row] = await gateway.database.sql<{ identity_key: Uint8Array }[]>`
    select identity_key from nodes where node_id = ${nodeId}`
  return verifyKey(toBase64url(new Uint8Array(row?.identity_key ?? [])))
}

describe('§14: an agent’s own receipt is the one that is kept', () => {
  const isItsOwn = async (svc: Readonly<Record<string, unknown>>) => {
    const row = await receiptOf('receipt_hash', svc.receipt_hash)
    expect(row).toMatchObject({ issuer: 'node', node_id: agent.nodeId, node_class: 'gpu', runtime_id: svc.runtime_id })
    expect(row.job_id).toBe('job-7')
    const signature = row.signature_ed25519 ?? ''
    expect(
      (await identityOf(agent.nodeId))?.verify(receiptMessage(row.receipt_hash, 'svc-receipt-v3'), signature),
    ).toBe(true)
    expect((await identityOf(liar.nodeId))?.verify(receiptMessage(row.receipt_hash, 'svc-receipt-v3'), signature)).toBe(
      false,
    )
  }

  test('of a whole answer', async () => {
    const before = await invalidReceipts()
    await isItsOwn(await svcOf(await ask('m-1', { svc: { job_id: 'job-7' } })))
    expect(await invalidReceipts()).toBe(before)
  })

  test.each([[true], [false]])('of a stream; include_usage %p', async (include_usage) => {
    const before = await invalidReceipts()
    const options = { stream: true, stream_options: { include_usage }, svc: { job_id: 'job-7' } }
    const stream = await readStream(await ask('m-1', options))
    expect(stream.done).toBe(true)
    // Of the node's `svc` nothing but the hash reaches the client.
    expect(Object.keys(stream.last.svc ?? {}).sort()).toEqual(
      ['latency_ms', 'receipt_hash', 'request_id', 'runtime_id', 'runtime_kind', 'ttft_ms'].sort(),
    )
    await isItsOwn(stream.last.svc ?? {})
    expect(await invalidReceipts()).toBe(before)
  })

  test('with usage that the agent had to estimate, which the client is told', async () => {
    server.setFaults({ kind: 'noUsage', scope: 'chat' })
    const svc = await svcOf(await ask('m-1', { svc: { job_id: 'job-7' } }))
    server.clearFaults()
    expect(svc.usage_estimated).toBe(true)
    await isItsOwn(svc)
  })

  test('also after the operator has given the node another class', async () => {
    await gateway.admin('PATCH', `/v1/admin/nodes/${agent.nodeId}`, { node_class: 'big' })
    const classOf = async () => {
      const svc = await svcOf(await ask('m-1'))
      const row = await receiptOf('receipt_hash', svc.receipt_hash)
      expect(row.issuer).toBe('node')
      return row.node_class
    }
    await waitFor('the new class', async () => (await classOf()) === 'big')
    await gateway.admin('PATCH', `/v1/admin/nodes/${agent.nodeId}`, { node_class: 'gpu' })
    await waitFor('the old class', async () => (await classOf()) === 'gpu')
  })

  test('a client that leaves in mid-stream: what was delivered gets the gateway’s receipt, and nothing is amiss', async () => {
    const before = await invalidReceipts()
    server.setAnswer({ chunks: 1_000, intervalMs: 5 })
    const response = await ask('m-1', { stream: true })
    const reader = new EventStreamReader(response)
    for (let i = 0; i < 3; i++) await reader.chunk()
    const aborted = server.nextAbort()
    await reader.cancel()
    await aborted
    const row = await receiptOf('request_id', response.headers.get('x-request-id'))
    expect(row).toMatchObject({ issuer: 'gateway', signature_ed25519: null, node_id: agent.nodeId })
    expect(await invalidReceipts()).toBe(before)
  })
})

describe('§14: a receipt that does not fit what the gateway saw is not believed', () => {
  /** The receipt that the liar would truly owe for a call. */
  const owed = ({ headers }: AgentCall): Receipt => ({
    issuer: 'node',
    requestId: headers.get('x-svc-request-id') ?? '',
    jobId: null,
    kind: 'hosted_chat',
    nodeId: liar.nodeId,
    nodeClass: 'gpu',
    runtimeId: headers.get('x-svc-runtime-id') ?? '',
    runtimeKind: 'vllm',
    modelId: 'lies',
    promptTokens: agentUsage.prompt_tokens,
    completionTokens: agentUsage.completion_tokens,
    startedAt: isoTime(Date.now()),
    completedAt: isoTime(Date.now()),
  })
  const signed = (receipt: Receipt, key: SigningKey = liar.identity) => {
    const text = receiptText(receipt)
    const hash = textHash(text)
    return { receipt_hash: hash, receipt: JSON.parse(text), signature_ed25519: key.sign(receiptMessage(hash)) }
  }
  const stranger = signingKey(crypto.getRandomValues(new Uint8Array(32)))
  const old = isoTime(Date.now() - 301_000)

  test('the true one is', async () => {
    liar.vouch((call) => signed(owed(call)))
    const row = await receiptOf('receipt_hash', (await svcOf(await ask('lies'))).receipt_hash)
    expect(row).toMatchObject({ issuer: 'node', node_id: liar.nodeId })
  })

  test.each<readonly [string, (call: AgentCall) => unknown]>([
    ['none at all', () => undefined],
    ['another key', (call) => signed(owed(call), stranger)],
    ['more tokens', (call) => signed({ ...owed(call), completionTokens: 1_000 })],
    ['another request', (call) => signed({ ...owed(call), requestId: 'req_other' })],
    ['another node', (call) => signed({ ...owed(call), nodeId: agent.nodeId })],
    ['another model', (call) => signed({ ...owed(call), modelId: 'm-1' })],
    ['issued by the gateway', (call) => signed({ ...owed(call), issuer: 'gateway' })],
    ['of another time', (call) => signed({ ...owed(call), startedAt: old, completedAt: old })],
    ['ended before it began', (call) => signed({ ...owed(call), completedAt: isoTime(Date.now() - 1_000) })],
    ['a signature of another length', (call) => ({ ...signed(owed(call)), signature_ed25519: 'AAAA' })],
    ['of another shape', () => ({ receipt: [], receipt_hash: 1, signature_ed25519: {} })],
  ])('%s', async (_, vouch) => {
    liar.vouch(vouch)
    const before = await invalidReceipts()
    const svc = await svcOf(await ask('lies'))
    const row = await receiptOf('receipt_hash', svc.receipt_hash)
    expect(row).toMatchObject({
      issuer: 'gateway',
      signature_ed25519: null,
      node_id: liar.nodeId,
      request_id: svc.request_id,
      completion_tokens: 1,
    })
    expect(await invalidReceipts()).toBe(before + 1)
  })
})
