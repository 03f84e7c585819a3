import { describe, expect, test } from 'bun:test'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { parseNoteKey } from '../../../src/protocol/log/note.ts'
import { verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { verifyReceipt } from '../../../src/protocol/verify/receipt.ts'
import { checkWord } from '../../../src/protocol/verify/trust.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { startTestGateway, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const env = { SVC_RECEIPT_FLUSH_MS: '10', SVC_LOG_INTERVAL_MS: '100' }
const gateway = await fixture(startTestGateway({ env }))
const customer = await gateway.customer()
const plain = await fixture(startFakeNode({ models: ['m-plain'], answer: { chunks: 2, intervalMs: 0 } }))
const behind = await fixture(startFakeNode({ models: ['m-agent'], answer: { chunks: 2, intervalMs: 0 } }))
await gateway.node(plain.url, { customerId: customer.customerId })
const token = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({ gatewayUrl: gateway.url, token: token.enrollment_token, runtimes: [behind.url] }),
)
await untilState(gateway, agent.nodeId, 'ready')

interface File {
  readonly receipt: Readonly<Record<string, string>>
  readonly public_key: string | null
  readonly log: { readonly logged_at: string | null } | null
}

/** As soon as the log has it. */
const fileOf = (hash: string): Promise<File> =>
  waitFor('the receipt in the log', async () => {
    const headers = { 'x-svc-customer-id': customer.customerId, 'x-svc-customer-token': customer.customerToken }
    const response = await fetch(`${gateway.url}/v1/billing/receipts/${hash}`, { headers })
    const file = response.ok ? ((await response.json()) as File) : null
    return file?.log == null ? undefined : file
  })

async function verdictOf(file: File) {
  const { keys } = (await (await fetch(`${gateway.url}/v1/public/log/keys`)).json()) as { keys: string[] }
  return verifyReceipt(file as never, {
    logKeys: keys.flatMap((key) => parseNoteKey(key) ?? []),
    witnessKeys: [],
    nodeKeys: file.public_key === null ? [] : [file.public_key],
    auditKeys: [],
    witnessesMin: 0,
    logNeeded: true,
    remembered: () => [],
    verify: verifyEd25519,
  })
}

async function answered(at: TestGateway, model: string, stream: boolean, bound: boolean): Promise<string> {
  const headers = {
    authorization: `Bearer ${customer.key}`,
    'content-type': 'application/json',
    ...(bound ? { 'x-svc-nonce': 'nonce-of-a-client' } : {}),
  }
  const body = { model, stream, messages: [{ role: 'user', content: 'hello' }] }
  const response = await at.chat(customer.key, body, { headers })
  const svc = stream ? (await readStream(response)).last.svc : ((await response.json()) as { svc: object }).svc
  return (svc as unknown as { receipt_hash: string }).receipt_hash
}

describe.each([
  ['a gateway', 'm-plain'],
  ['an agent', 'm-agent'],
])('§36: a receipt that %s issues says when', (_, model) => {
  test.each([
    [false, false],
    [true, false],
    [false, true],
    [true, true],
  ])('stream %p, with a nonce %p: both times are shown', async (stream, bound) => {
    const from = Date.now()
    const file = await fileOf(await answered(gateway, model, stream, bound))
    const { v, issued_at: issued = '', completed_at: completed = '' } = file.receipt
    expect(v).toBe('svc-receipt-v3')
    expect('client_nonce' in file.receipt).toBe(bound)
    expect(Date.parse(issued)).toBeGreaterThanOrEqual(Math.max(from, Date.parse(completed)))
    const verdict = await verdictOf(file)
    expect(verdict.checks.filter(({ ok }) => ok === false)).toEqual([])
    const times = verdict.checks.find(({ name }) => name === 'times')
    expect(times?.detail).toBe(`issued at ${issued}; in the log since ${file.log?.logged_at}, as the gateway says`)
    expect(Date.parse(file.log?.logged_at ?? '')).toBeGreaterThanOrEqual(from)
  })
})

test('§36: a receipt that the log took an hour later has a warning, and is valid', async () => {
  const hash = await answered(gateway, 'm-plain', false, true)
  await fileOf(hash)
  await gateway.database.sql`update log_receipts l set taken_at = taken_at + interval '1 hour' from receipt_rows r
    where r.receipt_hash = ${hash} and r.seq > l.from_seq and r.seq <= l.to_seq`
  const verdict = await verdictOf(await fileOf(hash))
  expect(verdict.valid).toBe(true)
  const times = verdict.checks.find(({ name }) => name === 'times')
  expect(times === undefined ? '' : checkWord(times)).toBe('warning')
  expect(times?.detail).toContain('60 minutes LATER')
})

test('§36: in the hour after an upgrade receipts are of v1 and v2, so that a gateway of the version before can read them', async () => {
  await gateway.database.sql`update receipt_versions set issued_from = now() + interval '1 hour'`
  await using upgraded = await scoped(startTestGateway({ beside: gateway }))
  await waitFor('the node', async () => (await upgraded.chat(customer.key, { model: 'm-plain', messages: [] })).status)
  for (const [bound, version] of [
    [false, 'svc-receipt-v1'],
    [true, 'svc-receipt-v2'],
  ] as const) {
    const file = await fileOf(await answered(upgraded, 'm-plain', false, bound))
    expect(file.receipt.v).toBe(version)
    expect(file.receipt).not.toHaveProperty('issued_at')
    const verdict = await verdictOf(file)
    expect(verdict.valid).toBe(true)
    expect(verdict.checks.find(({ name }) => name === 'times')?.detail).toContain('does not say when it was issued')
  }
})

test('§36: the books know every version beside the others', async () => {
  const check = await gateway.admin<{ sound: boolean; faults: object[]; receipts: number }>(
    'GET',
    '/v1/admin/ledger/check',
  )
  expect(check).toMatchObject({ sound: true, faults: [] })
  expect(check.receipts).toBeGreaterThanOrEqual(11)
})
