import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newId } from '../../../src/ids.ts'
import { canonicalJson } from '../../../src/protocol/json/canonical-json.ts'
import { answerText, commitment, readSalt } from '../../../src/protocol/receipts/binding.ts'
import { type Receipt, receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { toBase64url } from '../../../src/protocol/signing/base64url.ts'
import { verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { isoTime } from '../../../src/time.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { agentRuntime, agentUsage, startScriptedAgent } from '../../support/nodes/scripted-agent.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(
  startTestGateway({
    env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_METRICS_PUBLIC: 'true', SVC_RECEIPT_FLUSH_MS: '10' },
  }),
)
const customer = await gateway.customer()
const plain = await fixture(startFakeNode({ models: ['m-plain'] }))
const behind = await fixture(startFakeNode({ models: ['m-agent'] }))
await gateway.node(plain.url, { customerId: customer.customerId })
const token = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({ gatewayUrl: gateway.url, token: token.enrollment_token, runtimes: [behind.url] }),
)
const other = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
const old = await fixture(
  startScriptedAgent(gateway.url, other.enrollment_token, [agentRuntime(newId('rt'), ['m-old'])]),
)
for (const id of [agent.nodeId, old.nodeId]) await untilState(gateway, id, 'ready')
for (const server of [plain, behind]) server.setAnswer({ chunks: 5, intervalMs: 0 })

const nonce = 'nonce-of-client-1'
const bodyOf = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: 'user', content: 'what was asked' }],
  temperature: 0.5,
  ...more,
})
const ask = (body: object, sent = nonce) =>
  gateway.chat(customer.key, body, {
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', 'x-svc-nonce': sent },
  })

interface Row {
  readonly issuer: string
  readonly signature_ed25519: string | null
  readonly client_nonce: string | null
  readonly request_commitment: string | null
  readonly response_commitment: string | null
  readonly upstream_model_commitment: string | null
  readonly node_receipt: string | null
}
const rowOf = (hash: unknown): Promise<Row> =>
  waitFor('the receipt', async () => {
    const [row] = await gateway.database.sql<Row[]>`select * from receipts where receipt_hash = ${String(hash)}`
    return row
  })
const exported = async (hash: unknown) =>
  (await (
    await fetch(`${gateway.url}/v1/billing/receipts/${hash}`, {
      headers: { 'x-svc-customer-id': customer.customerId, 'x-svc-customer-token': customer.customerToken },
    })
  ).json()) as { receipt: Record<string, unknown>; receipt_hash: string; node_receipt: Record<string, unknown> | null }

async function invalidReceipts(): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  return Number(/^svc_upstream_failures_total\{code="receipt_invalid"\} (\d+)$/m.exec(text)?.[1] ?? 0)
}

/** The client can show what was asked and answered, to whoever has the receipt. */
function commits(row: Row, salt: string, body: object, choices: readonly Record<string, unknown>[], upstream: string) {
  const bytes = readSalt(salt)
  if (bytes === null) throw new Error('no salt')
  expect(row.client_nonce).toBe(nonce)
  expect(row.request_commitment).toBe(commitment(bytes, canonicalJson(body)))
  expect(row.response_commitment).toBe(commitment(bytes, answerText(choices)))
  expect(row.upstream_model_commitment).toBe(commitment(bytes, upstream))
}

describe.each([
  ['a model server: the gateway’s own receipt', 'm-plain', 'gateway'],
  ['an agent: the node’s own receipt', 'm-agent', 'node'],
] as const)('§31: a bound receipt of %s', (_, model, issuer) => {
  test('commits to a whole answer', async () => {
    const body = bodyOf(model)
    const answer = (await (await ask(body)).json()) as {
      choices: Record<string, unknown>[]
      svc: { receipt_hash: string; receipt_salt: string }
    }
    const row = await rowOf(answer.svc.receipt_hash)
    expect(row.issuer).toBe(issuer)
    commits(row, answer.svc.receipt_salt, body, answer.choices, model)
    const file = await exported(answer.svc.receipt_hash)
    expect(file.receipt.v).toBe('svc-receipt-v3')
    expect(textHash(canonicalJson(file.receipt))).toBe(file.receipt_hash)
    expect(JSON.stringify(file)).not.toContain(answer.svc.receipt_salt)
  })

  test.each([[true], [false]])(
    'commits to a stream as its reader puts it together; include_usage %p',
    async (usage) => {
      const body = bodyOf(model, { stream: true, stream_options: { include_usage: usage } })
      const stream = await readStream(await ask(body))
      const svc = stream.last.svc as unknown as { receipt_hash: string; receipt_salt: string }
      const message = { role: 'assistant', content: stream.content }
      const row = await rowOf(svc.receipt_hash)
      expect(row.issuer).toBe(issuer)
      commits(row, svc.receipt_salt, body, [{ index: 0, finish_reason: 'stop', message }], model)
    },
  )
})

describe('§31: an answer that breaks off', () => {
  const brokenOf = (response: Response) =>
    waitFor('the receipt', async () => {
      const [row] = await gateway.database.sql<(Row & { completion_tokens: number })[]>`
        select * from receipts where request_id = ${response.headers.get('x-request-id')}`
      return row
    })

  test.each([
    ['m-plain', 'dropMidStream'],
    ['m-plain', 'errorEvent'],
    ['m-plain', 'endWithoutFinish'],
    ['m-plain', 'stall'],
    ['m-agent', 'dropMidStream'],
    ['m-agent', 'stall'],
  ] as const)('of %s by %s: the receipt binds the request and commits to no answer', async (model, kind) => {
    const server = model === 'm-plain' ? plain : behind
    server.setFaults({ kind, afterChunks: 2 })
    try {
      const body = bodyOf(model, { stream: true })
      const response = await ask(body)
      const reader = response.body?.getReader()
      await reader?.read()
      // What is silent is left by its client; the others end by themselves.
      if (kind === 'stall') await reader?.cancel()
      else while (!(await reader?.read())?.done);
      const row = await brokenOf(response)
      expect(row).toMatchObject({ issuer: 'gateway', client_nonce: nonce, response_commitment: null })
      expect(row.request_commitment).toMatch(/^0x[0-9a-f]{64}$/)
      expect(row.completion_tokens).toBeGreaterThan(0)
    } finally {
      server.clearFaults()
    }
    await waitFor('the node serves again', async () => (await gateway.chat(customer.key, bodyOf(model))).status === 200)
  })
})

describe('§31: what has no nonce, and what cannot have one', () => {
  test.each([['m-plain'], ['m-agent']])(
    'without a nonce the receipt of %s binds nothing, and there is no salt',
    async (model) => {
      const { svc } = (await (await gateway.chat(customer.key, bodyOf(model))).json()) as {
        svc: Record<string, unknown>
      }
      expect(svc.receipt_salt).toBeUndefined()
      expect((await rowOf(svc.receipt_hash)).client_nonce).toBeNull()
      expect((await exported(svc.receipt_hash)).receipt).not.toHaveProperty('client_nonce')
    },
  )

  test.each([
    ['too short', bodyOf('m-plain'), 'fifteen-letters'],
    ['too long', bodyOf('m-plain'), 'n'.repeat(65)],
    ['a quote', bodyOf('m-plain'), 'nonce"of-the-client'],
    ['a mixture', bodyOf('m-plain', { svc: { mixture: { strategy: 'vote', experts: [] } } }), nonce],
  ])('%s is refused before a node is asked', async (_, body, sent) => {
    const response = await ask(body, sent)
    expect([response.status, ((await response.json()) as { error: { param: string } }).error.param]).toEqual([
      400,
      'header.x-svc-nonce',
    ])
  })

  test('a body that is too long to be committed to at once is refused', async () => {
    const long = { ...bodyOf('m-plain'), messages: [{ role: 'user', content: 'x'.repeat(1024 * 1024) }] }
    expect((await ask(long)).status).toBe(413)
  })

  test.each([
    ['embeddings', { input: 'x' }],
    // Translated to a chat that its client never sees, and could not show to anybody.
    ['messages', { max_tokens: 5, messages: [{ role: 'user', content: 'x' }] }],
    ['responses', { input: 'x' }],
  ])('an operation without a bound receipt refuses the nonce: %s', async (path, body) => {
    const response = await postJson(
      `${gateway.url}/v1/api/${path}`,
      customer.key,
      { model: 'm-plain', ...body },
      { headers: { 'x-svc-nonce': nonce } },
    )
    expect(response.status).toBe(400)
  })
})

describe('§31: the node’s receipt is kept beside the gateway’s', () => {
  const owed = (headers: Headers): Receipt => ({
    issuer: 'node',
    requestId: headers.get('x-svc-request-id') ?? '',
    jobId: null,
    kind: 'hosted_chat',
    nodeId: old.nodeId,
    nodeClass: 'gpu',
    runtimeId: headers.get('x-svc-runtime-id') ?? '',
    runtimeKind: 'vllm',
    modelId: 'm-old',
    promptTokens: agentUsage.prompt_tokens,
    completionTokens: agentUsage.completion_tokens,
    startedAt: isoTime(Date.now()),
    completedAt: isoTime(Date.now()),
  })
  const signed = (receipt: Receipt, requestId = receipt.requestId) => {
    const text = receiptText({ ...receipt, requestId })
    const hash = textHash(text)
    return { receipt_hash: hash, receipt: JSON.parse(text), signature_ed25519: old.identity.sign(receiptMessage(hash)) }
  }
  const keyOf = async () => {
    const { sql } = gateway.database
    const [row] = await sql<
      { identity_key: Uint8Array }[]
    >`select identity_key from nodes where node_id = ${old.nodeId}`
    return verifyKey(toBase64url(new Uint8Array(row?.identity_key ?? [])))
  }

  test('of an agent of the version before: it signs v1, and that is no fault of its', async () => {
    old.vouch(({ headers }) => signed(owed(headers)))
    const before = await invalidReceipts()
    const answer = (await (await ask(bodyOf('m-old'))).json()) as {
      svc: { receipt_hash: string; receipt_salt: string }
    }
    expect(answer.svc.receipt_salt).toHaveLength(43)
    await rowOf(answer.svc.receipt_hash)
    const file = await exported(answer.svc.receipt_hash)
    expect(file.receipt).toMatchObject({ v: 'svc-receipt-v3', issuer: 'gateway', client_nonce: nonce })
    const beside = file.node_receipt as { receipt: object; receipt_hash: string; signature_ed25519: string }
    expect(beside.receipt).toMatchObject({ v: 'svc-receipt-v1', issuer: 'node', node_id: old.nodeId })
    expect((await keyOf())?.verify(receiptMessage(beside.receipt_hash), beside.signature_ed25519)).toBe(true)
    expect(await invalidReceipts()).toBe(before)
  })

  test('of an answer that broke off it is no receipt, though every fact of it fits', async () => {
    const choices = [{ index: 0, delta: { role: 'assistant', content: 'hi' }, finish_reason: null }]
    old.events(({ headers }) => [{ choices }, { choices: [], usage: agentUsage, svc: signed(owed(headers)) }])
    const response = await gateway.chat(customer.key, bodyOf('m-old', { stream: true }))
    expect(await response.text()).toContain('"code":"node_lost"')
    const row = await waitFor('the receipt', async () => {
      const [found] = await gateway.database.sql<Row[]>`
        select * from receipts where request_id = ${response.headers.get('x-request-id')}`
      return found
    })
    expect(row).toMatchObject({ issuer: 'gateway', signature_ed25519: null })
    expect(row.node_receipt).toContain('"issuer":"node"')
  })

  test('where the node says more tokens than were seen, and only where it speaks of this very call', async () => {
    old.vouch(({ headers }) => signed({ ...owed(headers), completionTokens: 1_000 }))
    const before = await invalidReceipts()
    const plainAsk = async () =>
      ((await (await gateway.chat(customer.key, bodyOf('m-old'))).json()) as { svc: { receipt_hash: string } }).svc
    const { receipt_hash: hash } = await plainAsk()
    await rowOf(hash)
    const file = await exported(hash)
    expect(file.receipt).toMatchObject({ issuer: 'gateway', completion_tokens: 1 })
    expect(file.node_receipt?.receipt).toMatchObject({ issuer: 'node', completion_tokens: 1_000 })
    expect(await invalidReceipts()).toBe(before + 1)
    old.vouch(({ headers }) => signed(owed(headers), 'req_other'))
    expect((await rowOf((await plainAsk()).receipt_hash)).node_receipt).toBeNull()
  })
})
