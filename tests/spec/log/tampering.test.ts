import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { readBooks } from '../../../src/db/queries/money/ledger-proof.ts'
import { brokenRules } from '../../../src/machines/rules/books.ts'
import { canonicalJson } from '../../../src/protocol/json/canonical-json.ts'
import { textHash } from '../../../src/protocol/receipts/receipt.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { holdLog } from '../../support/money/held-log.ts'
import { type Books, tamper, undo, writtenBooks } from '../../support/money/tampering.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway(stillLog))
const books = await writtenBooks(gateway)
/** One that was started after all of it was written, as after a stop. */
const later = await fixture(startTestGateway(stillLog, undefined, { beside: gateway }))

afterEach(() => undo(gateway))

/** The rules that are broken, as both gateways see it. */
async function broken(): Promise<ReadonlySet<string>> {
  const seen = await Promise.all(
    [gateway, later].map(async (one) => {
      const { faults } = await one.gateway.checkBooks()
      return [...faults.map(({ rule }) => rule as string), ...brokenRules(await readBooks(one.database.db))].sort()
    }),
  )
  expect(seen[1]).toEqual(seen[0] ?? [])
  return new Set(seen[0])
}

type Edit = readonly [what: string, rule: string, edit: (books: Books) => readonly string[]]
const last = (kind: string) => `(select entry_id from ledger_entries where kind = '${kind}' order by seq desc limit 1)`
const raise = (customer: string, wei: number) =>
  `update customers set balance_wei = balance_wei + ${wei} where customer_id = '${customer}'`
const after = (customer: string, wei: number) =>
  `update ledger_rows set balance_after_wei = balance_after_wei + ${wei} where customer_id = '${customer}'`
const firstHash = ({ hashes }: Books) => hashes[4] ?? ''
const wholeChat = (hash: string) => [
  `delete from ledger_rows where reservation_id = (select reservation_id from reservations where receipt_hash = '${hash}')`,
  ...['reservations', 'payout_rows', 'fee_rows', 'receipt_rows'].map(
    (table) => `delete from ${table} where receipt_hash = '${hash}'`,
  ),
]

const ledgerRule = 'the ledger is as the log holds it'
/** What nobody found before: every sum still agrees. */
const consistent: readonly Edit[] = [
  [
    'credit inflated with its balance',
    'every credit is as the log holds it',
    ({ idleCustomerId: id }) => [
      raise(id, 1000),
      after(id, 1000),
      `update ledger_rows set amount_wei = amount_wei + 1000 where customer_id = '${id}'`,
    ],
  ],
  [
    'newest credit deleted with its balance',
    ledgerRule,
    ({ idleCustomerId: id }) => [raise(id, -777), `delete from ledger_rows where customer_id = '${id}'`],
  ],
  [
    'a whole chat deleted',
    'every receipt in the log is there',
    (all) => [...wholeChat(firstHash(all)), raise(all.customerId, 1000)],
  ],
  [
    'consistent overcharge',
    ledgerRule,
    (all) => [
      `update ledger_rows set amount_wei = amount_wei + 10, balance_after_wei = balance_after_wei - 10 where kind = 'debit' and receipt_hash = '${firstHash(all)}'`,
      `update ledger_rows set amount_wei = amount_wei - 10, balance_after_wei = balance_after_wei - 10 where kind = 'release' and receipt_hash = '${firstHash(all)}'`,
      `update payout_rows set amount_wei = amount_wei + 9, gross_wei = gross_wei + 10 where receipt_hash = '${firstHash(all)}'`,
      `update fee_rows set amount_wei = amount_wei + 1 where receipt_hash = '${firstHash(all)}'`,
      raise(all.customerId, -10),
    ],
  ],
  [
    'debit back-dated',
    ledgerRule,
    () => [`update ledger_rows set created_at = created_at - interval '40 days' where entry_id = ${last('debit')}`],
  ],
  [
    'newest entries re-dated',
    ledgerRule,
    () => [
      "update ledger_rows set created_at = created_at + interval '1 hour' where seq > (select max(seq) - 3 from ledger_entries)",
    ],
  ],
  [
    'credit reason changed',
    'every credit is as the log holds it',
    () => ["update ledger_rows set reason = 'a gift' where kind = 'admin_credit'"],
  ],
  [
    'payout moved to another node',
    'every payout is for the node of its receipt',
    (all) => [`update payout_rows set node_id = 'node_b' where receipt_hash = '${firstHash(all)}'`],
  ],
  [
    '±1 wei between payouts',
    'every debit is its payout, its fee and its refund',
    ({ hashes }) => [
      `update payout_rows set amount_wei = amount_wei + 1 where receipt_hash = '${hashes[3]}'`,
      `update payout_rows set amount_wei = amount_wei - 1 where receipt_hash = '${hashes[4]}'`,
    ],
  ],
  [
    '±1 wei between payout and fee',
    ledgerRule,
    (all) => [
      `update payout_rows set amount_wei = amount_wei - 1 where receipt_hash = '${firstHash(all)}'`,
      `update fee_rows set amount_wei = amount_wei + 1 where receipt_hash = '${firstHash(all)}'`,
    ],
  ],
  [
    'whole payout turned into fee',
    ledgerRule,
    (all) => [
      `update fee_rows set amount_wei = 1000 where receipt_hash = '${firstHash(all)}'`,
      `delete from payout_rows where receipt_hash = '${firstHash(all)}'`,
    ],
  ],
  [
    'receipt deleted',
    'every receipt in the log is there',
    (all) => [`delete from receipt_rows where receipt_hash = '${firstHash(all)}'`],
  ],
  [
    'its tokens changed',
    'every receipt has the hash of its facts',
    (all) => [`update receipt_rows set completion_tokens = 9000 where receipt_hash = '${firstHash(all)}'`],
  ],
  [
    'its signature removed',
    'every receipt of a node bears its signature',
    (all) => [`update receipt_rows set signature_ed25519 = null where receipt_hash = '${firstHash(all)}'`],
  ],
  [
    'batch total changed',
    'every batch is the sum of its payouts',
    () => ['update payout_batches set total_amount_wei = total_amount_wei + 1'],
  ],
  [
    'credit-only customer deleted',
    ledgerRule,
    ({ idleCustomerId: id }) => [
      `delete from ledger_rows where customer_id = '${id}'`,
      `delete from customers where customer_id = '${id}'`,
    ],
  ],
  [
    'a credit without its approval event',
    'every credit has its approval event',
    () => ["delete from admin_approval_events where action = 'customer.credit.create'"],
  ],
  [
    'a refund and the balance made larger',
    'every refund is the debit of a rejected receipt',
    ({ customerId }) => [
      raise(customerId, 50),
      "update ledger_rows set amount_wei = amount_wei + 50, balance_after_wei = balance_after_wei + 50 where kind = 'refund'",
    ],
  ],
  [
    'a receipt that stands given back by hand',
    'every refund is the debit of a rejected receipt',
    (all) => [
      `insert into ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id,
        receipt_hash) select 'led_gift', l.customer_id, 'refund', l.amount_wei, c.balance_wei + l.amount_wei, 0, l.reservation_id,
        l.receipt_hash from ledger_entries l join customers c using (customer_id)
        where l.kind = 'debit' and l.receipt_hash = '${firstHash(all)}'`,
      `update payout_rows set settlement_status = 'void' where receipt_hash = '${firstHash(all)}'`,
      `update fee_rows set status = 'refunded' where receipt_hash = '${firstHash(all)}'`,
      raise(all.customerId, 1000),
    ],
  ],
  [
    'a refund given to another customer',
    'every refund is the debit of a rejected receipt',
    ({ customerId, idleCustomerId: id }) => [
      raise(customerId, -1000),
      raise(id, 1000),
      `update ledger_rows set customer_id = '${id}', balance_after_wei = 1777 where kind = 'refund'`,
    ],
  ],
  [
    'a refund taken back into the fees',
    'every rejected receipt was given back',
    ({ customerId, refundedHash: hash }) => [
      raise(customerId, -1000),
      "delete from ledger_rows where kind = 'refund'",
      `update fee_rows set status = 'earned', amount_wei = 1000 where receipt_hash = '${hash}'`,
    ],
  ],
  [
    'half of a refund kept as a fee',
    'every refund is the debit of a rejected receipt',
    ({ customerId, refundedHash: hash }) => [
      raise(customerId, -500),
      "update ledger_rows set amount_wei = 500, balance_after_wei = balance_after_wei - 500 where kind = 'refund'",
      `update fee_rows set status = 'earned', amount_wei = 500 where receipt_hash = '${hash}'`,
    ],
  ],
  [
    'a refunded share that is to be paid out as well',
    'every debit is its payout, its fee and its refund',
    ({ refundedHash: hash }) => [
      `update payout_rows set settlement_status = 'pending', held = false where receipt_hash = '${hash}'`,
    ],
  ],
  [
    'a refund whose receipt is accepted again',
    'every refund is the debit of a rejected receipt',
    ({ refundedHash: hash }) => [`update receipt_rows set status = 'accepted' where receipt_hash = '${hash}'`],
  ],
  [
    'a refund re-dated',
    'every refund is as the log holds it',
    () => ["update ledger_rows set created_at = created_at + interval '1 hour' where kind = 'refund'"],
  ],
  [
    'a refund without its approval event',
    'every refund has its approval event',
    () => ["delete from admin_approval_events where action = 'receipt.reject'"],
  ],
  [
    'an admin debit made larger with its balance',
    'every admin debit is as the log holds it',
    ({ debitedCustomerId: id }) => [
      raise(id, -100),
      "update ledger_rows set amount_wei = amount_wei + 100, balance_after_wei = balance_after_wei - 100 where kind = 'admin_debit'",
    ],
  ],
  [
    'another reason for an admin debit',
    'every admin debit is as the log holds it',
    () => ["update ledger_rows set reason = 'by wish' where kind = 'admin_debit'"],
  ],
  [
    'an admin debit deleted with its balance',
    ledgerRule,
    ({ debitedCustomerId: id }) => [raise(id, 200), "delete from ledger_rows where kind = 'admin_debit'"],
  ],
  [
    'an admin debit without its approval event',
    'every admin debit has its approval event',
    () => ["delete from admin_approval_events where action = 'customer.debit.create'"],
  ],
  [
    'a payee changed after the earning',
    'every payee is the one of its earning',
    () => ["update payout_rows set payee = '0x000000000000000000000000000000000000dead'"],
  ],
]

/** What the sums find. */
const unbalanced: readonly Edit[] = [
  [
    'a balance raised',
    'credits + refunds = balances + debits + admin debits',
    ({ customerId }) => [raise(customerId, 5)],
  ],
  [
    'a credit raised',
    'every balance is the sum of its entries',
    () => ["update ledger_rows set amount_wei = amount_wei + 5 where kind = 'admin_credit'"],
  ],
  [
    'an admin debit raised',
    'every balance is the sum of its entries',
    () => ["update ledger_rows set amount_wei = amount_wei + 5 where kind = 'admin_debit'"],
  ],
  [
    'a payout lost',
    'debits = payouts + fees + refunds',
    (all) => [`delete from payout_rows where receipt_hash = '${firstHash(all)}'`],
  ],
  [
    'a fee lost',
    'debits = payouts + fees + refunds',
    (all) => [`delete from fee_rows where receipt_hash = '${firstHash(all)}'`],
  ],
  [
    'a debit lost',
    'every entry follows from the one before',
    () => [`delete from ledger_rows where entry_id = ${last('debit')}`],
  ],
  [
    'a reserve without a reservation',
    'reserved = open reservations',
    ({ customerId }) => [`update customers set reserved_wei = reserved_wei + 1 where customer_id = '${customerId}'`],
  ],
  [
    'a balance between two entries',
    'every entry follows from the one before',
    () => [
      "update ledger_rows set balance_after_wei = balance_after_wei + 1 where kind = 'reserve' and seq = (select min(seq) from ledger_entries where kind = 'reserve')",
    ],
  ],
]

/** What covers the traces: the log itself, and the audit's ends in it. */
const inTheLog: readonly Edit[] = [
  [
    'an entry of the log changed with its receipt',
    'the log is the tree of its checkpoint',
    (all) => [
      ...wholeChat(firstHash(all)),
      raise(all.customerId, 1000),
      `update log_entries set hash = '0x${'ee'.repeat(32)}' where hash = '${firstHash(all)}'`,
    ],
  ],
  [
    'the newest entries of the log removed',
    'the log is the tree of its checkpoint',
    () => ['delete from log_entries where entry_index > (select max(entry_index) - 2 from log_entries)'],
  ],
  ['a run of receipts removed', 'every receipt is in the log', () => ['delete from log_receipts']],
  [
    'a run of receipts made shorter',
    'every receipt in the log is there',
    () => ['update log_receipts set entries = entries - 1'],
  ],
  [
    'a run of receipts moved',
    'the log is the tree of its checkpoint',
    () => ['update log_receipts set first_index = first_index + 1'],
  ],
  [
    'the root put in its place',
    'the log is the tree of its checkpoint',
    () => [`update log_state set root = '\\x${'ee'.repeat(32)}'`],
  ],
  ['the checkpoints removed', 'the log is the tree of its checkpoint', () => ['delete from log_checkpoints']],
  [
    'the whole audit removed',
    "every end of the audit's chains leads on from the log",
    () => ['delete from admin_approval_events', 'delete from audit_chains'],
  ],
  [
    'the batch changed with its payouts',
    'every batch is as the log holds it',
    () => [
      'update payout_rows set amount_wei = amount_wei + 1, gross_wei = gross_wei + 1 where batch_id is not null',
      'update payout_batches set total_amount_wei = total_amount_wei + payout_count',
    ],
  ],
]

test('§31: the receipt that a node signed in place of the gateway’s own is recomputed, too', async () => {
  const key = signingKey(new Uint8Array(32).fill(5))
  const [hash] = books.hashes
  const [row] = await gateway.database.sql<
    { id: string }[]
  >`select request_id as id from receipts where receipt_hash = ${hash ?? ''}`
  const facts = { issuer: 'node', node_id: 'node_a', request_id: row?.id, completion_tokens: 1, v: 'svc-receipt-v1' }
  const told = textHash(canonicalJson(facts))
  const signature_ed25519 = key.sign(receiptMessage(told))
  const kept = (receipt: object) => {
    const text = JSON.stringify({ receipt: JSON.parse(canonicalJson(receipt)), receipt_hash: told, signature_ed25519 })
    return tamper(gateway, [`update receipt_rows set node_receipt = '${text}' where receipt_hash = '${hash}'`])
  }
  await kept(facts)
  expect([...(await broken())]).toEqual([])
  await kept({ ...facts, completion_tokens: 2 })
  expect([...(await broken())]).toEqual(['every receipt of a node bears its signature'])
})

test('§31: untouched books break no rule', async () => {
  expect([...(await broken())]).toEqual([])
  const body = await json(await gateway.ask('GET', '/v1/admin/ledger/check', { as: 'operator' }))
  expect(body).toMatchObject({ object: 'svc.admin.books_check', sound: true, receipts: 6, faults: [] })
})

describe.each([
  ['that keeps every sum', consistent],
  ['that a sum shows', unbalanced],
  ['that covers its traces', inTheLog],
])('§31: a change of the database %s is found', (_, edits) => {
  // No gateway goes on with the log between a change and the two looks at it.
  let letGo: () => Promise<void>
  beforeAll(async () => {
    letGo = await holdLog(gateway.database.sql)
  })
  afterAll(() => letGo())
  test.each([...edits])('%s: %s', async (_what, rule, edit) => {
    expect(await tamper(gateway, edit(books))).toBeGreaterThan(0)
    expect([...(await broken())]).toContain(rule)
  })
})

test('§31: the log put back as a whole, with all that it holds, is found by what the gateway has seen', async () => {
  const size = async () => (await gateway.database.sql<{ size: string }[]>`select size from log_state`)[0]?.size
  const before = await size()
  await newAccount(gateway, '5')
  // One that comes while the other is at it writes nothing.
  await waitFor('the entries of the account', async () => {
    await gateway.gateway.sequencer.catchUp({ heads: true })
    return (await size()) !== before
  })
  await undo(gateway)
  // One gateway writes at a time, and only the one that wrote has seen it.
  const witness = await waitFor('the fork', async () => {
    const all = [gateway.gateway, later.gateway]
    for (const { sequencer } of all) await sequencer.catchUp({ heads: true })
    return all.find(({ sequencer }) => sequencer.fork() !== null)
  })
  const { faults } = await witness.checkBooks()
  expect(faults.map(({ rule }) => rule)).toContain('the log leads on from what was seen before')
})
