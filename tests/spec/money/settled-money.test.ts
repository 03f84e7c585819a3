import { describe, expect, test } from 'bun:test'
import { settledEventTopic } from '../../../src/protocol/receipts/settlement-contract.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { payoutReportMessage } from '../../../src/protocol/signing/signatures.ts'
import type { PayoutBatch, PayoutProof } from '../../../src/protocol/wire/money/money.ts'
import { parseCsv } from '../../support/clients/csv.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { chainId, deploy, operatorKey, startAnvil } from '../../support/money/anvil.ts'
import { expectBooksBalance } from '../../support/money/ledger.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { fixture } from '../../support/run/fixture.ts'

/** Work that was paid, batched, settled on a chain and made final, as every report of it shows it. */
const identity = signingKey(Uint8Array.from({ length: 32 }, (_, at) => 0x40 + at))
const payee = `0x${'5e'.repeat(20)}`
const open = { min_privacy_class: 'public' as const }
const words = { prompt: 'mk-prompt-7d1f', output: 'mk-output-93ab', job: 'job-mk-55e1', user: 'mk-user-08c4' }
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const hash = expect.stringMatching(/^0x[0-9a-f]{64}$/)

let batch: PayoutBatch

const chat = (body: object) =>
  gateway.chat(payer.key, {
    model: 'paid',
    messages: [{ role: 'user', content: words.prompt }],
    max_tokens: 20,
    user: words.user,
    svc: { job_id: words.job },
    ...body,
  })
const batches = async () =>
  (await gateway.admin<{ batches: PayoutBatch[] }>('GET', '/v1/admin/payout-batches?limit=1000')).batches

const get = async (path: string, headers: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(gateway.url + path, { headers })
  return { status: response.status, text: await response.text() }
}
const body = async (path: string, headers: Readonly<Record<string, string>> = {}) =>
  JSON.parse((await get(path, headers)).text) as Record<string, unknown>

const anvil = await fixture(startAnvil())
const contract = await deploy(anvil)
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_CHAIN_RPC_URL: anvil.url,
      SVC_CHAIN_ID: String(chainId),
      SVC_CHAIN_KEY: operatorKey,
      SVC_CHAIN_CONTRACT: contract,
      SVC_CHAIN_NAME: 'testnet',
      SVC_CHAIN_EXPLORER: 'https://explorer.example/',
      SVC_PUBLIC_RPC_URL: 'https://rpc.example/',
      SVC_SETTLEMENT_POLL_MS: '20',
      SVC_PAYOUT_ANNOUNCE_MS: '0',
    },
  }),
  ({ database }) => expectBooksBalance(database.db),
)
const owner = await gateway.customer({ policy: open, keyPolicy: open })
const payer = await gateway.customer({ policy: open, keyPolicy: open })
const nodes = await fixture(startFakeNodes(2, (at) => ({ models: at === 0 ? ['paid'] : ['private-one'] })))
const [shared, own] = [nodeAt(nodes, 0), nodeAt(nodes, 1)]
const offered = { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' } as const
const nodeId = await gateway.node(shared.url, offered)
const privateId = await gateway.node(own.url, { customerId: owner.customerId })
await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { payout_address: payee })
await gateway.database.sql`update nodes set identity_key = ${Buffer.from(identity.publicKey, 'base64url')}
    where node_id = ${nodeId}`
await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1000' })
await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: '1000000' })
const usage = { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 }
shared.setAnswer({ text: words.output, usage })
const whole = (await (await chat({})).json()) as { svc: { receipt_hash: string } }
const streamed = (await readStream(await chat({ stream: true }))).last as unknown as typeof whole
await gateway.admin('POST', '/v1/admin/payout-batches', {})
await waitFor('the batch to be final', async () => {
  await anvil.mine()
  const [first] = await batches()
  batch = first as PayoutBatch
  return first?.status === 'completed'
})
// More than can be: its share waits.
shared.setAnswer({ text: `${words.output} `.repeat(4), usage: { ...usage, completion_tokens: 1_000_000 } })
const held = (await (await chat({})).json()) as typeof whole
/** Two that are final, in one batch, then one that is held. */
const receipts: string[] = [whole, streamed, held].map(({ svc }) => svc.receipt_hash)

const asAdmin = () => ({ 'x-svc-admin-token': gateway.tokens.operator })

let nonces = 0
function signedPath(more: Readonly<Record<string, string>> = {}): string {
  const signedAt = new Date().toISOString()
  const nonce = `settled-${String(nonces++).padStart(12, '0')}`
  const { window_days: windowDays = '30', limit = '100' } = more
  const message = payoutReportMessage({ nodeId, windowDays, limit, signedAt, nonce })
  const query = { ...more, signed_at: signedAt, nonce, signature_ed25519: identity.sign(message) }
  return `/v1/nodes/${nodeId}/payouts?${new URLSearchParams(query)}`
}

const groups = [
  { settlement_status: 'finalized', payout_count: 2, total_payout_wei: '7200', total_amount_wei: '8000' },
  { settlement_status: 'pending', payout_count: 1, total_payout_wei: '18000', total_amount_wei: '20000' },
]

describe('every field with real rows behind it', () => {
  test('endpoint 8: what is final and what is held', async () => {
    const paid = (receipt_hash: string | undefined) => ({
      entry_id: expect.stringMatching(/^pay_/),
      private_job_id: null,
      receipt_hash,
      request_id: expect.stringMatching(/^req_/),
      payee: `0x${'5e'.repeat(20)}`,
      amount_wei: '3600',
      status: 'paid',
      settlement_status: 'finalized',
      payout_batch_id: batch.batch_id,
      settled_at: instant,
      created_at: instant,
      updated_at: instant,
    })
    const held = { amount_wei: '18000', status: 'held', settlement_status: 'pending' }
    expect(await body(signedPath())).toEqual({
      status: 'ok',
      node_id: nodeId,
      generated_at: instant,
      summary: { total_payout_wei: '25200', settlement_statuses: groups },
      payouts: [
        { ...paid(receipts[2]), ...held, payout_batch_id: null, settled_at: null },
        paid(receipts[1]),
        paid(receipts[0]),
      ],
    })
    expect((await get(signedPath({ window_days: '365', limit: '500' }))).status).toBe(200)
    expect(((await body(signedPath({ window_days: '1', limit: '1' }))).payouts as unknown[]).length).toBe(1)
  })

  test('§13, §23: batches and their proofs as tables', async () => {
    const path = '/v1/admin/payout-batches'
    const batchTable = parseCsv((await get(`${path}?format=csv`, asAdmin())).text)
    const batchRow = Object.fromEntries((batchTable[0] ?? []).map((name, at) => [name, batchTable[1]?.[at]]))
    expect(batchRow).toMatchObject({ batch_id: batch.batch_id, status: 'completed', total_amount_wei: '7200' })
    const { proofs } = await gateway.admin<{ proofs: PayoutProof[] }>('GET', `${path}/${batch.batch_id}/proofs`)
    expect(proofs.map(({ amount_wei }) => amount_wei)).toEqual(['3600', '3600'])
    const cells = [
      'batch_id',
      'entry_id',
      'payout_id',
      'payee',
      'amount_wei',
      'leaf',
      'merkle_root',
      'submitted_tx_hash',
    ]
    const rows = proofs.map((proof) => cells.map((cell) => String(proof[cell as keyof PayoutProof])))
    const table = await get(`${path}/${batch.batch_id}/proofs?format=csv`, asAdmin())
    expect(parseCsv(table.text)).toEqual([cells, ...rows])
  })

  test('endpoint 9: chain, counts, receipts and batches', async () => {
    const settled = {
      batch_id: batch.batch_id,
      merkle_root: hash,
      payout_count: 2,
      total_amount_wei: '7200',
      status: 'completed',
      submitted_tx_hash: hash,
      created_at: instant,
      submitted_at: instant,
      completed_at: instant,
      finalized_at: instant,
      settlement_block_number: expect.stringMatching(/^[1-9]\d*$/),
      settlement_block_hash: hash,
    }
    const receipt = (receipt_hash: string | undefined, status: string, batch_id: string | null) => ({
      receipt_hash,
      node_id: nodeId,
      job_id: expect.stringMatching(/^req_/),
      node_class: 'gpu',
      model_id: 'paid',
      status,
      received_at: instant,
      batch_id,
    })
    expect(await body('/v1/public/settlement?limit=200&batch_limit=100')).toEqual({
      protocol: expect.objectContaining({ node_share_bps: 9_000, protocol_fee_bps: 1_000 }),
      payout_settlement: {
        network_name: 'testnet',
        chain_id: String(chainId),
        rpc_url: 'https://rpc.example/',
        explorer_url: 'https://explorer.example/',
        contract_address: contract,
        event_topic: settledEventTopic,
      },
      summary: {
        accepted_receipts: 2,
        pending_receipts: 0,
        pending_root: `0x${'00'.repeat(32)}`,
        latest_receipt_at: instant,
        settlement_ready: true,
        payouts: {
          total_payouts: 3,
          pending_payouts: 1,
          batched_payouts: 0,
          submitting_payouts: 0,
          submitted_payouts: 0,
          finalized_payouts: 2,
          latest_payout_at: instant,
          latest_finalized_payout_at: instant,
          by_kind: [
            {
              kind: 'hosted_chat',
              total_payouts: 3,
              pending_payouts: 1,
              finalized_payouts: 2,
              latest_payout_at: instant,
            },
          ],
        },
        payout_batches: {
          total_batches: 1,
          created_batches: 0,
          submitting_batches: 0,
          submitted_batches: 0,
          completed_batches: 1,
          latest_batch_at: instant,
          latest_finalized_batch_at: instant,
        },
      },
      receipts: [
        receipt(receipts[2], 'held', null),
        receipt(receipts[1], 'finalized', batch.batch_id),
        receipt(receipts[0], 'finalized', batch.batch_id),
      ],
      payout_batches: [settled],
    })
    expect<object>(batch).toEqual({ ...settled, attempts: 0, held: false, last_error: null })
  })

  test('endpoint 15: totals, groups and fees', async () => {
    const fee = (receipt_hash: string | undefined, amount_wei: string, settlement_status: string) => ({
      entry_id: expect.stringMatching(/^fee_/),
      private_job_id: null,
      receipt_hash,
      amount_wei,
      settlement_status,
      created_at: instant,
    })
    expect(await body('/v1/admin/billing/treasury-report', asAdmin())).toEqual({
      status: 'ok',
      generated_at: instant,
      window_days: 30,
      totals: {
        customer_debits_wei: '28000',
        customer_refunds_wei: '0',
        node_payouts_wei: '25200',
        protocol_fees_wei: '2800',
      },
      settlement_statuses: groups,
      recent_protocol_fees: [
        fee(receipts[2], '2000', 'pending'),
        fee(receipts[1], '400', 'finalized'),
        fee(receipts[0], '400', 'finalized'),
      ],
    })
  })

  test.each(['window_days=1&limit=1', 'window_days=365&limit=1000', 'other=1'])(
    '§17: the treasury report takes %s',
    async (query) => {
      expect((await get(`/v1/admin/billing/treasury-report?${query}`, asAdmin())).status).toBe(200)
    },
  )
  test.each(['window_days=0', 'window_days=366', 'limit=0', 'limit=1001', 'limit=1&limit=1', 'window_days=-1'])(
    '§17: the treasury report refuses %s',
    async (query) => {
      const refused = await get(`/v1/admin/billing/treasury-report?${query}`, asAdmin())
      expect([refused.status, JSON.parse(refused.text).code]).toEqual([400, 'invalid_parameter'])
    },
  )
})

/** All GETs that need no credential, as the description of the interface has them. */
async function publicPaths(): Promise<readonly string[]> {
  const { paths } = (await body('/openapi.json')) as {
    paths: Record<string, { get?: { security?: unknown[] } }>
  }
  const free = Object.entries(paths).filter(([, { get: read }]) => read !== undefined && read.security?.length === 0)
  return free.map(([path]) => path)
}

test('§18, §19: every public and node-facing body: no customer, key, token, prompt, answer or private route', async () => {
  const paths = await publicPaths()
  for (const known of ['/v1/api', '/v1/api/pricing', '/v1/public/settlement', '/marketplace/models']) {
    expect(paths).toContain(known)
  }
  const { sql } = gateway.database
  const ids = async (rows: Promise<readonly { id: string }[]>) => (await rows).map(({ id }) => id)
  const forbidden = [
    ...(await ids(sql<{ id: string }[]>`select customer_id id from customers`)),
    ...(await ids(sql<{ id: string }[]>`select key_id id from gateway_keys`)),
    ...(await ids(sql<{ id: string }[]>`select runtime_id id from runtimes`)),
    ...(await ids(sql<{ id: string }[]>`select profile_id id from model_profiles`)),
    ...[owner, payer].flatMap(({ key, customerToken }) => [key, customerToken]),
    ...Object.values(gateway.tokens),
    ...Object.values(words),
    ...nodes.map(({ url }) => new URL(url).host),
    anvil.url,
    operatorKey,
    privateId,
    'private-one',
  ]
  expect(forbidden.length).toBeGreaterThan(15)
  expect(forbidden.every((word) => word.length > 5)).toBe(true)
  const [first = ''] = receipts
  const filled = paths.map((path) => path.replace('{receipt_hash}', first).replace('{node_id}', nodeId))
  const all = [...filled, '/v1/api/models', signedPath()]
  expect(filled.some((path) => path.endsWith(first))).toBe(true)
  for (const path of all) {
    const { text } = await get(path)
    expect([path, forbidden.filter((word) => text.includes(word))]).toEqual([path, []])
  }
  expect((await get(`/v1/public/receipts/${first}`)).status).toBe(200)
})
