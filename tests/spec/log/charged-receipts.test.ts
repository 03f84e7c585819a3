import { afterEach, expect, test } from 'bun:test'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { LeasedCalls, leasedWork, leaseOf } from '../../support/money/leased.ts'
import { receiptFacts } from '../../support/money/receipt-facts.ts'
import { tamper } from '../../support/money/tampering.ts'
import { fixture } from '../../support/run/fixture.ts'

const kept = ['customers', 'receipt_groups', 'receipt_rows', 'charge_groups', 'payout_rows', 'log_receipts'] as const
const count = 5
const prices = { promptTokenWei: 2n, completionTokenWei: 6n }

let customerId = ''
const gateway = await fixture(startTestGateway(stillLog))
const { database, ask } = gateway
customerId = (await newAccount(gateway, '100000')).id
const priced = { id: 'm', prompt_token_price_wei: '2', completion_token_price_wei: '6' }
await ask('PUT', '/v1/admin/models', { as: 'admin', json: priced })
for (const id of ['node_0', 'node_1'])
  await database.sql`insert into nodes (node_id, customer_id, name, kind, payout_address, visibility, privacy_class, node_class)
      values (${id}, ${customerId}, ${id}, 'agent', '0x00000000000000000000000000000000000a0001', 'public', 'public', 'gpu')`
const lease = await leaseOf(database, customerId, 1_000n)
const charges = Array.from({ length: count }, (_, at) => work(lease, `node_${at % 2}`))
await new LeasedCalls(database).send(charges)
await gateway.gateway.sequencer.catchUp({ heads: true })
for (const table of kept) await database.sql.unsafe(`create table kept_${table} as table ${table}`)
afterEach(() =>
  tamper(
    gateway,
    kept.flatMap((table) => [
      `delete from ${table}`,
      `insert into ${table} ${table === 'receipt_rows' ? 'overriding system value' : ''} select * from kept_${table}`,
    ]),
  ),
)

/** A charge of 60 wei by its price, whose receipt says when it was issued. */
function work(lease: string, nodeId: string) {
  const at = new Date().toISOString()
  const facts = receiptFacts({ nodeId, runtimeId: 'rt_1', startedAt: at, completedAt: at, issuedAt: at })
  const text = receiptText(facts)
  return leasedWork(customerId, lease, { nodeId, prices, receipt: { text, hash: textHash(text), facts } })
}

const rules = async () => (await gateway.gateway.checkBooks()).faults.map(({ rule }) => rule as string)
const set = (changes: string) => `update receipt_groups set ${changes}`
const [hash, debit, there, once, price] = [
  'every receipt has the hash of its facts',
  'every debit has its billed receipt',
  'every receipt in the log is there',
  'every receipt is there once',
  'every price of a receipt bears the mark of the process that billed it',
]

test('§31: untouched receipts of charges break no rule, and stand in the log', async () => {
  const groups = await gateway.database.sql`select rows, billed, price is not null as priced from receipt_groups`
  expect([...groups]).toEqual([{ rows: count, billed: true, priced: true }])
  const logged = await gateway.database.sql`select 1 from log_contents where kind = 'receipt'`
  expect(logged).toHaveLength(count)
  expect(await rules()).toEqual([])
})

test.each([
  ['that it is billed', debit, () => [set('billed = false')]],
  ['whose it is', debit, () => [set("shared[1] = 'cus_other'")]],
  ['its tokens', hash, () => [set("shared[12] = '8'")]],
  ['its model', hash, () => [set("shared[11] = 'other'")]],
  ['the node of one', 'every payout is for the node of its receipt', () => [set("node_id[2] = 'node_0'")]],
  [
    'the hashes of two that are exchanged',
    hash,
    () => [
      set(
        'hashes = substring(hashes for 32) || substring(hashes from 65 for 32) || substring(hashes from 33 for 32) || substring(hashes from 97)',
      ),
    ],
  ],
  [
    'when it was written',
    'every receipt was written when it was issued',
    () => [set("created_at = created_at + interval '2 days'")],
  ],
  ['the price of one', price, () => [set("price[3] = '1' || price[3]")]],
  ['its prices taken away', 'every debit is what its price makes of its tokens', () => [set('price = null')]],
  [
    'the last one taken out',
    there,
    () => [
      set(`rows = 4, last_seq = last_seq - 1, seq = seq[1:4], hashes = substring(hashes for 128), request_id = request_id[1:4],
        node_id = node_id[1:4], price = price[1:4]`),
    ],
  ],
  ['the group removed', there, () => ['delete from receipt_groups']],
  [
    'a receipt that is a row, too',
    once,
    () => [
      `insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
          prompt_tokens, completion_tokens, started_at, completed_at, customer_id, billed, issued_at)
        select receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id, prompt_tokens,
          completion_tokens, started_at, completed_at, customer_id, billed, issued_at from receipts limit 1`,
    ],
  ],
  [
    'a group that nobody paid for',
    'every billed receipt has its debit',
    () => [
      'create temp table forged on commit drop as select * from receipt_groups',
      "update forged set last_seq = last_seq + 1000, first_seq = first_seq + 1000, seq = array(select s + 1000 from unnest(seq) s), first_hash = '\\xeeeeeeee' || substring(first_hash from 5), hashes = '\\xeeeeeeee' || substring(hashes from 5)",
      'insert into receipt_groups select * from forged',
    ],
  ],
  ['its charges removed', 'every billed receipt has its debit', () => ['delete from charge_groups']],
] as readonly (readonly [string, string, () => readonly string[]])[])(
  '§31: a group of receipts of charges is changed in the database, and it is found: %s',
  async (_what, rule, edit) => {
    expect(await tamper(gateway, edit())).toBeGreaterThan(0)
    expect(await rules()).toContain(rule)
  },
)
