import { expect, test } from 'bun:test'
import { dropOldNonces } from '../../../src/db/queries/pool/node-identities.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { payoutReportMessage } from '../../../src/protocol/signing/signatures.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { expectBooksBalance, fundedCustomer } from '../../support/money/ledger.ts'
import { payFor } from '../../support/money/money.ts'
import { fixture } from '../../support/run/fixture.ts'

const seed = Uint8Array.from({ length: 32 }, (_, at) => 0x11 + at)
const key = signingKey(seed)
const nodeId = 'node_0001'
const gateway = await fixture(startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000' }), ({ database }) =>
  expectBooksBalance(database.db),
)
const customerId = await fundedCustomer(gateway.database, 1_000_000n)
await addNode(nodeId)

async function addNode(id: string) {
  await gateway.database.sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class,
    identity_key) values (${id}, ${customerId}, 'agent', 'n', 'public', 'public', 'gpu',
    ${Buffer.from(key.publicKey, 'base64url')})`
}

let nonces = 0
const nonce = () => `nonce-${String(nonces++).padStart(12, '0')}`

interface Query {
  readonly signed_at?: string
  readonly nonce?: string
  readonly window_days?: string
  readonly limit?: string
  readonly signature_ed25519?: string
}

/** A signed query; what `sent` has is sent in place of what was signed. */
function ask(id: string, given: Query = {}, sent: Record<string, string | null> = {}) {
  const values = { signed_at: new Date().toISOString(), nonce: nonce(), ...given }
  const message = payoutReportMessage({
    nodeId: id,
    windowDays: values.window_days ?? '30',
    limit: values.limit ?? '100',
    signedAt: values.signed_at,
    nonce: values.nonce,
  })
  const all: Record<string, string | null> = { signature_ed25519: key.sign(message), ...values, ...sent }
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(all)) if (value !== null) query.set(name, value)
  return gateway.ask('GET', `/v1/nodes/${id}/payouts?${query}`)
}

const refusal = async (response: Response) => [response.status, (await json(response)).code]

test('§20: the vector of the signature', () => {
  const message = payoutReportMessage({
    nodeId,
    windowDays: '30',
    limit: '100',
    signedAt: '2026-11-20T16:00:00Z',
    nonce: 'AAAAAAAAAAAAAAAAAAAAAA',
  })
  expect(message).toBe('svc-node-payout-report-v1:node_0001:30:100:2026-11-20T16:00:00Z:AAAAAAAAAAAAAAAAAAAAAA')
  expect(key.publicKey).toBe('7VSln7GsOlEjk1E2KUG4aOhaYOPXskhdgogh3Hppwnk')
  expect(key.sign(message)).toBe(
    'WIn383gx3mLFXMb_pDwZkU2TSz97XgGLOnL85mTzuecz-fiO0Fqib_KuOJ9b7Bo9mBLO0GMbKtXj03mBTGAQAQ',
  )
})

test('endpoint 8: every field, newest first, without any customer', async () => {
  const first = await payFor(gateway.database, { customerId, nodeId, amountWei: 1_000n })
  const second = await payFor(gateway.database, { customerId, nodeId, amountWei: 19n, held: true })
  await payFor(gateway.database, { customerId, nodeId: 'node_other', amountWei: 5_000n })
  const response = await ask(nodeId)
  expect(response.status).toBe(200)
  const body = await json(response)
  const payout = (receipt_hash: string, amount_wei: string, status: string) => ({
    entry_id: expect.stringMatching(/^pay_/),
    private_job_id: null,
    receipt_hash,
    request_id: expect.stringMatching(/^req_/),
    payee: null,
    amount_wei,
    status,
    settlement_status: 'pending',
    payout_batch_id: null,
    settled_at: null,
    created_at: expect.any(String),
    updated_at: expect.any(String),
  })
  expect(body).toEqual({
    status: 'ok',
    node_id: nodeId,
    generated_at: expect.any(String),
    summary: {
      total_payout_wei: '918',
      settlement_statuses: [
        { settlement_status: 'pending', payout_count: 2, total_payout_wei: '918', total_amount_wei: '1019' },
      ],
    },
    payouts: [payout(second, '18', 'held'), payout(first, '900', 'accrued')],
  })
  expect(JSON.stringify(body)).not.toContain(customerId)
  const limited = await json(await ask(nodeId, { limit: '1', window_days: '1' }))
  expect((limited.payouts as unknown[]).length).toBe(1)
  expect(limited.summary).toEqual(body.summary as never)
})

test('§15: what is signed is the text as it was sent', async () => {
  // 007 is 7 days, and signed as 007.
  expect((await ask(nodeId, { window_days: '007' })).status).toBe(200)
  expect(await refusal(await ask(nodeId, { window_days: '7' }, { window_days: '007' }))).toEqual([
    401,
    'signature_invalid',
  ])
  expect(await refusal(await ask(nodeId, { limit: '5' }, { limit: null }))).toEqual([401, 'signature_invalid'])
  expect((await ask(nodeId, { limit: '100' }, { limit: null })).status).toBe(200)
  const plus = new Date().toISOString().replace('Z', '+00:00')
  expect((await ask(nodeId, { signed_at: plus })).status).toBe(200)
})

test('§15: a nonce works once, and only after its signature was seen to be right', async () => {
  const used = nonce()
  expect((await ask(nodeId, { nonce: used }, { signature_ed25519: 'A'.repeat(86) })).status).toBe(401)
  expect((await ask(nodeId, { nonce: used })).status).toBe(200)
  expect(await refusal(await ask(nodeId, { nonce: used }))).toEqual([401, 'nonce_reused'])
  const together = nonce()
  const all = await Promise.all(Array.from({ length: 8 }, () => ask(nodeId, { nonce: together })))
  expect(all.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1)
})

test('§15: a nonce is kept until 600 s after signed_at, and is removed then', async () => {
  const { sql, db } = gateway.database
  await sql`delete from node_nonces`
  const signedAt = new Date(Date.now() - 120_000).toISOString()
  expect((await ask(nodeId, { signed_at: signedAt })).status).toBe(200)
  const [row] = await sql<{ expires_at: Date }[]>`select expires_at from node_nonces`
  expect(new Date(row?.expires_at ?? 0).getTime() - Date.parse(signedAt)).toBe(600_000)
  await dropOldNonces(db)
  expect(await sql`select 1 from node_nonces`).toHaveLength(1)
  await sql`update node_nonces set expires_at = now() - interval '1 s'`
  await dropOldNonces(db)
  expect(await sql`select 1 from node_nonces`).toHaveLength(0)
})

test('§15: 300 s either way', async () => {
  await addNode('node_0002')
  const at = (ms: number) => ask('node_0002', { signed_at: new Date(Date.now() + ms).toISOString() })
  expect((await at(-295_000)).status).toBe(200)
  expect((await at(295_000)).status).toBe(200)
  expect(await refusal(await at(-301_000))).toEqual([401, 'signature_expired'])
  expect(await refusal(await at(305_000))).toEqual([401, 'signature_expired'])
})

test('§3: an unknown node is a wrong signature', async () => {
  expect(await refusal(await ask('node_none'))).toEqual([401, 'signature_invalid'])
})

test.each([
  [{ signed_at: null }, 401, 'missing_credentials'],
  [{ nonce: null }, 401, 'missing_credentials'],
  [{ signature_ed25519: null }, 401, 'missing_credentials'],
  [{ signed_at: '2026-11-20' }, 400, 'signature_malformed'],
  [{ signed_at: '1795190400' }, 400, 'signature_malformed'],
  [{ nonce: 'short' }, 400, 'signature_malformed'],
  [{ nonce: 'x'.repeat(65) }, 400, 'signature_malformed'],
  [{ nonce: 'has:colon:in:the:middle' }, 400, 'signature_malformed'],
  [{ signature_ed25519: 'A'.repeat(85) }, 400, 'signature_malformed'],
  [{ signature_ed25519: `${'A'.repeat(85)}+` }, 400, 'signature_malformed'],
  [{ window_days: '0' }, 400, 'invalid_parameter'],
  [{ window_days: '366' }, 400, 'invalid_parameter'],
  [{ limit: '501' }, 400, 'invalid_parameter'],
])('§15: %j is refused', async (sent, status, code) => {
  expect(await refusal(await ask(nodeId, {}, sent))).toEqual([status, code])
})

test('padding is tolerated; a duplicate is not', async () => {
  await addNode('node_0003')
  const values = { signed_at: new Date().toISOString(), nonce: nonce() }
  const signedAt = values.signed_at
  const message = payoutReportMessage({
    nodeId: 'node_0003',
    windowDays: '30',
    limit: '100',
    signedAt,
    nonce: values.nonce,
  })
  const padded = await ask('node_0003', values, { signature_ed25519: `${key.sign(message)}==` })
  expect(padded.status).toBe(200)
  const query = new URLSearchParams({ ...values, signature_ed25519: key.sign(message) })
  const twice = await gateway.ask('GET', `/v1/nodes/node_0003/payouts?${query}&nonce=${nonce()}`)
  expect(await refusal(twice)).toEqual([400, 'invalid_parameter'])
})

test('§17: 12 a minute for one node; strangers use up nothing', async () => {
  await addNode('node_0004')
  for (let i = 0; i < 15; i++) await ask('node_0004', {}, { signature_ed25519: 'A'.repeat(86) })
  const statuses: number[] = []
  for (let i = 0; i < 14; i++) statuses.push((await ask('node_0004')).status)
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(12)
  expect(statuses.at(-1)).toBe(429)
})
