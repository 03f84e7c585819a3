import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromHex, verifyProof } from '../../src/protocol/receipts/merkle.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { holdLog } from '../support/money/held-log.ts'
import { payFor } from '../support/money/money.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

const gateway = await fixture(startTestGateway({ env: { SVC_LOG_INTERVAL_MS: '5000' } }))
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))
const customerId = (await gateway.customer()).customerId

const file = (name: string, content: unknown) => {
  const at = join(cli.home, name)
  writeFileSync(at, typeof content === 'string' ? content : JSON.stringify(content))
  return at
}

test('credits add, and again with the same id', async () => {
  const args = ['credits', 'add', customerId, '5000', '--id', 'inv-9', '--reason', 'paid']
  expect(await cli.json(...args)).toMatchObject({ status: 'credited', balance_after_wei: '5000', credit_id: 'inv-9' })
  expect(await cli.json(...args)).toMatchObject({ balance_after_wei: '5000' })
  const text = await cli.run(['credits', 'add', customerId, '0'])
  expect([text.code, text.err]).toEqual([1, expect.stringContaining('invalid_request')])
})

test('credits deduct takes back what is available, once for each id, and audit books counts it', async () => {
  const args = ['credits', 'deduct', customerId, '1500', '--id', 'back-9', '--reason', 'paid twice']
  expect(await cli.json(...args)).toMatchObject({ status: 'debited', balance_after_wei: '3500', debit_id: 'back-9' })
  expect(await cli.json(...args)).toMatchObject({ balance_after_wei: '3500' })
  const refused = await cli.run(['credits', 'deduct', customerId, '3501'])
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('invalid_state')])
  const text = await cli.run(['credits', 'deduct', customerId, '500'])
  expect([text.code, text.out]).toEqual([0, expect.stringMatching(/Debit +led_\w+\n[\s\S]*Balance +3000 wei/)])
  const books = await cli.run(['audit', 'books'])
  expect(books.out).toMatch(
    /Credits +5000 wei\nBalances +3000 wei\nDebits +0 wei\nRefunds +0 wei\nAdmin debits +2000 wei\n/,
  )
})

test.each(['add', 'deduct'])('credits %s takes whole wei only', async (verb) => {
  const refused = await cli.run(['credits', verb, '--', customerId, '1e18'])
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('whole wei, without exponent')])
})

test.each(['1e18', '1.5', '-1', '0x10', ' 1'])('credits add takes whole wei only, not %p', async (amount) => {
  const refused = await cli.run(['credits', 'add', '--', customerId, amount])
  expect(refused.code).toBe(2)
  expect(refused.err).toContain('whole wei, without exponent')
})

test('payouts list, create, submit and proofs; audit books; verify payout', async () => {
  await gateway.database.sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class,
    payout_address) values ('node_cli', ${customerId}, 'agent', 'n', 'public', 'public', 'gpu', ${`0x${'ab'.repeat(20)}`})`
  await payFor(gateway.database, { customerId, nodeId: 'node_cli', amountWei: 100n })
  await payFor(gateway.database, { customerId, nodeId: 'node_cli', amountWei: 200n })
  const dry = await cli.json('payouts', 'create', '--dry-run')
  expect(dry).toMatchObject({ status: 'dry_run', payout_count: 2, total_amount_wei: '270', batch: null })
  const made = await cli.json<{ batch: { batch_id: string; merkle_root: string } }>('payouts', 'create')
  expect(made).toMatchObject({ status: 'created', merkle_root: dry.merkle_root as string })
  const { batch_id: batchId, merkle_root: root } = made.batch
  const listed = await cli.run(['payouts', 'list'])
  expect(listed.out).toContain(batchId)
  expect(listed.out).toContain('No blockchain is configured')
  const refused = await cli.run(['payouts', 'submit', batchId])
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('settlement_not_configured')])
  const proofs = await cli.json<{ proofs: { amount_wei: string }[] }>('payouts', 'proofs', batchId)
  const good = file('proofs.json', proofs)
  expect(await cli.json('verify', 'payout', good, '--root', root)).toMatchObject({ valid: true })
  const [first] = proofs.proofs
  const bad = file('bad.json', { ...first, amount_wei: `${first?.amount_wei}0` })
  const failed = await cli.run(['verify', 'payout', bad])
  expect([failed.code, failed.out]).toEqual([1, expect.stringContaining('NOT VALID')])
  expect((await cli.run(['verify', 'payout', good, '--root', `0x${'00'.repeat(32)}`])).code).toBe(1)
  // A root out of the same file proves nothing.
  expect((await cli.run(['verify', 'payout', good])).code).toBe(1)
  const books = await cli.run(['audit', 'books'])
  expect([books.code, books.out]).toEqual([0, expect.stringContaining('balance')])
  await gateway.database.sql`update customers set balance_wei = balance_wei + 1 where customer_id = ${customerId}`
  const broken = await cli.run(['audit', 'books'])
  expect([broken.code, broken.out]).toEqual([1, expect.stringContaining('DO NOT BALANCE')])
  await gateway.database.sql`update customers set balance_wei = balance_wei - 1 where customer_id = ${customerId}`
})

test('§20: verify receipt with the vector', async () => {
  const receipt =
    '{"completed_at":"2026-11-20T16:00:00.000Z","completion_tokens":7,"issuer":"gateway","job_id":null,"kind":"hosted_chat","model_id":"llama-3.1-8b","node_class":"gpu","node_id":"node_0001","prompt_tokens":9,"request_id":"req_0001","runtime_id":"rt_0001","runtime_kind":"llama.cpp","started_at":"2026-11-20T15:59:59.000Z","v":"svc-receipt-v1"}'
  const hash = '0x80feff6b906f818df58d817d3b15909864e6e83cbe2b1815bcb390399ede7466'
  const publicKey = '7VSln7GsOlEjk1E2KUG4aOhaYOPXskhdgogh3Hppwnk'
  const signature = 'qiBYi8Bjfv6LyVO6CPdVG5onJrvqFzWQ-QajquE7Qzbw3bJjo3egWayTYVjH8sKuUW6JtYhiWLD-EfUqdDnfAA'
  const at = file('receipt.json', JSON.parse(receipt))
  const signed = ['--signature', signature, '--key', publicKey, '--without-log']
  expect(await cli.json('verify', 'receipt', at, '--hash', hash, ...signed)).toMatchObject({
    valid: true,
    verdicts: [{ kind: 'receipt', subject: hash, log_size: null }],
  })
  const changed = file('changed.json', { ...JSON.parse(receipt), completion_tokens: 8 })
  const failed = await cli.run(['verify', 'receipt', changed, '--hash', hash, ...signed])
  expect([failed.code, failed.out]).toEqual([1, expect.stringContaining('NOT VALID')])
  expect((await cli.run(['verify', 'receipt', at, '--signature', signature, '--without-log'])).code).toBe(1)
  expect((await cli.run(['verify', 'receipt', at, '--key', 'none'])).code).toBe(2)
})

test('§14: a receipt and its place below the public root, from what the gateway told', async () => {
  const letGo = await holdLog(gateway.database.sql)
  const [one, two] = [await gateway.customer(), await gateway.customer()]
  await cli.json('credits', 'add', one.customerId, '1000')
  const hashes: string[] = []
  for (const amountWei of [10n, 20n, 30n]) {
    hashes.push(await payFor(gateway.database, { customerId: one.customerId, nodeId: 'node_cli', amountWei }))
  }
  const held = await payFor(gateway.database, { customerId: one.customerId, nodeId: 'n', amountWei: 5n, held: true })
  const headersOf = ({ customerId, customerToken }: typeof one) => ({
    'x-svc-customer-id': customerId,
    'x-svc-customer-token': customerToken,
  })
  const get = (path: string, headers = {}) => fetch(gateway.url + path, { headers })
  const { summary } = (await (await get('/v1/public/settlement')).json()) as { summary: { pending_root: string } }
  const root = summary.pending_root
  for (const hash of hashes) {
    const own = await (await get(`/v1/billing/receipts/${hash}`, headersOf(one))).json()
    expect(own).toEqual({
      object: 'svc.receipt',
      receipt_hash: hash,
      status: 'accepted',
      received_at: expect.any(String),
      batch_id: null,
      pending_root: root,
      proof: expect.any(Array),
      billed: true,
      receipt: expect.objectContaining({ v: 'svc-receipt-v1', issuer: 'gateway', prompt_tokens: 9 }),
      signature_ed25519: null,
      public_key: null,
      node_key: null,
      node_receipt: null,
      log: null,
    })
    const { proof } = own as { proof: string[] }
    expect(verifyProof(fromHex(hash, 32), proof, root)).toBe(true)
    expect(verifyProof(fromHex(hash, 32), proof, held)).toBe(false)
    const told = await (await get(`/v1/public/receipts/${hash}`)).json()
    expect(Object.keys(told as object)).not.toContain('receipt')
    expect(told).toMatchObject({ pending_root: root, proof })
    expect((await get(`/v1/billing/receipts/${hash}`, headersOf(two))).status).toBe(404)
  }
  expect(await (await get(`/v1/public/receipts/${held}`)).json()).toMatchObject({
    status: 'held',
    pending_root: null,
    proof: null,
  })
  for (const path of [`/v1/public/receipts/0x${'0'.repeat(64)}`, '/v1/public/receipts/x']) {
    const none = await get(path)
    expect([none.status, ((await none.json()) as { code: string }).code]).toEqual([404, 'receipt_not_found'])
  }
  await letGo()
})
