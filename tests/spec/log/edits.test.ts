import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readBooks } from '../../../src/db/queries/money/ledger-proof.ts'
import { brokenRules } from '../../../src/machines/rules/books.ts'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { isoTime } from '../../../src/time.ts'
import { startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { holdLog } from '../../support/money/held-log.ts'
import { type Books, tamper, undo, writtenBooks } from '../../support/money/tampering.ts'
import { fixture } from '../../support/run/fixture.ts'

/** No gateway goes on with the log between an edit and the look at it. */

afterAll(() => letGo())
const gateway = await fixture(startTestGateway(stillLog))
const books = await writtenBooks(gateway, { settled: true })
const letGo = await holdLog(gateway.database.sql)
afterEach(() => undo(gateway))

/** The rules that are broken, without saved heads and without a witness. */
async function broken(): Promise<readonly string[]> {
  const { faults } = await gateway.gateway.checkBooks()
  return [...faults.map(({ rule }) => rule as string), ...brokenRules(await readBooks(gateway.database.db))]
}

type Edit = readonly [name: string, rule: string, edit: (books: Books) => readonly string[]]
const chat = ({ hashes }: Books, at = 4) => hashes[at] ?? ''
const of = (hash: string) => `where receipt_hash = '${hash}'`
const accountRule = 'every customer and its keys are as their last event made them'
const namedRule = 'every named token is as its last event made it'
const ledgerRule = 'the ledger is as the log holds it'
/** In three steps: some of these columns are unique. */
const swapped = (table: string, [a, b]: readonly [string, string]) =>
  [
    [a, 'between'],
    [b, a],
    ['between', b],
  ].map(([from, to]) => `update ${table} set receipt_hash = '${to}' where receipt_hash = '${from}'`)

/** Edits that an outsider made, and that followed through to every row that refers to the one that was changed. */
const edits: readonly Edit[] = [
  [
    '1b: the receipts of two equal debits swapped',
    ledgerRule,
    (all) =>
      ['ledger_rows', 'reservations', 'payout_rows', 'fee_rows'].flatMap((table) =>
        swapped(table, [chat(all, 3), chat(all, 4)]),
      ),
  ],
  [
    '1: a call of one customer given to another, with its receipt',
    ledgerRule,
    (all) => [
      `update ledger_rows set customer_id = '${all.idleCustomerId}' where reservation_id =
        (select reservation_id from reservations ${of(chat(all))})`,
      `update reservations set customer_id = '${all.idleCustomerId}' ${of(chat(all))}`,
      `update receipt_rows set customer_id = '${all.idleCustomerId}' ${of(chat(all))}`,
    ],
  ],
  [
    '1c: a receipt given to another customer',
    'every debit has its billed receipt',
    (all) => [`update receipt_rows set customer_id = '${all.idleCustomerId}' ${of(chat(all))}`],
  ],
  [
    '2, 2c: a pending payout moved to another node, with its receipt',
    'every receipt has the hash of its facts',
    (all) => ['payout_rows', 'receipt_rows'].map((table) => `update ${table} set node_id = 'node_b' ${of(chat(all))}`),
  ],
  [
    '2b: payee and earned payee of a pending payout',
    ledgerRule,
    (all) => [
      `update payout_rows set payee = '0x${'de'.repeat(20)}', earned_payee = '0x${'de'.repeat(20)}' ${of(chat(all))}`,
    ],
  ],
  [
    '4b: a payout final without a batch',
    'every batch is the sum of its payouts',
    (all) => [`update payout_rows set settlement_status = 'finalized', batch_id = '${all.batchId}' ${of(chat(all))}`],
  ],
  [
    '4c: a payout held for ever, with its receipt',
    'every payout on hold was so when it was earned',
    (all) => [
      `update payout_rows set held = true ${of(chat(all))}`,
      `update receipt_rows set status = 'held' ${of(chat(all))}`,
    ],
  ],
  [
    '4c: the same, and said to have been so from the beginning',
    ledgerRule,
    (all) => [
      `update payout_rows set held = true, earned_held = true ${of(chat(all))}`,
      `update receipt_rows set status = 'held' ${of(chat(all))}`,
    ],
  ],
  [
    '4c: the payout alone',
    'every payout is on hold as its receipt is',
    (all) => [`update payout_rows set held = true ${of(chat(all))}`],
  ],
  [
    '4d: a share rejected: receipt, fee and payout',
    'every rejected receipt was given back',
    (all) => [
      `update receipt_rows set status = 'rejected' ${of(chat(all))}`,
      `update payout_rows set settlement_status = 'void' ${of(chat(all))}`,
      `update fee_rows set status = 'void' ${of(chat(all))}`,
    ],
  ],
  [
    '4e: the time of a payout',
    ledgerRule,
    (all) => [`update payout_rows set created_at = created_at - interval '1 day' ${of(chat(all))}`],
  ],
  [
    '4f: the time of a fee',
    ledgerRule,
    (all) => [`update fee_rows set created_at = created_at - interval '1 day' ${of(chat(all))}`],
  ],
  ['4f: the id of a fee', ledgerRule, (all) => [`update fee_rows set entry_id = 'fee_other' ${of(chat(all))}`]],
  [
    '4f: the time of a payout and its fee',
    ledgerRule,
    (all) =>
      ['payout_rows', 'fee_rows'].map(
        (table) => `update ${table} set created_at = created_at - interval '1 day' ${of(chat(all))}`,
      ),
  ],
  [
    '5d: the time of a receipt',
    'every receipt was written when it was issued',
    (all) => [`update receipt_rows set created_at = created_at - interval '1 day' ${of(chat(all))}`],
  ],
  [
    '5a: the payout address of a node without an agent',
    'every node without an agent is paid as its last event says',
    () => [`update nodes set payout_address = '0x${'de'.repeat(20)}' where node_id = 'node_plain'`],
  ],
  [
    '5a: where the earnings of its former owners go',
    'every node without an agent is paid as its last event says',
    () => [`update nodes set former_payees = '{"cus_former": "0x${'de'.repeat(20)}"}' where node_id = 'node_plain'`],
  ],
  [
    '5e: the customer of a receipt',
    'every debit has its billed receipt',
    (all) => [`update receipt_rows set customer_id = '' ${of(chat(all))}`],
  ],
  [
    '5g: the identity key of a node',
    'every receipt of a node bears its signature',
    () => [`update nodes set identity_key = '\\x${'ab'.repeat(32)}' where node_id = 'node_a'`],
  ],
  [
    '5f: the node’s signature of a receipt',
    'every receipt of a node bears its signature',
    (all) => [`update receipt_rows set signature_ed25519 = null ${of(chat(all))}`],
  ],
  [
    '6a: the root of a batch',
    'every batch is as the log holds it',
    () => [`update payout_batches set merkle_root = '0x${'ab'.repeat(32)}'`],
  ],
  [
    '6b: the transaction of a batch',
    'every settled batch stands on the chain where the log holds it',
    () => [`update payout_batches set submitted_tx_hash = '0x${'ab'.repeat(32)}'`],
  ],
  [
    '6b: the block of a batch',
    'every settled batch stands on the chain where the log holds it',
    () => [`update payout_batches set settlement_block_hash = '0x${'ab'.repeat(32)}', settlement_block_number = '40'`],
  ],
  [
    '6c: the payee of a final payout',
    'every payee is the one of its earning',
    () => [`update payout_rows set payee = '0x${'de'.repeat(20)}' where settlement_status = 'finalized'`],
  ],
  [
    '7a: the target of an approval event',
    'every credit has its approval event',
    (all) => [
      `update admin_approval_events set target_id = '${all.debitedCustomerId}'
        where action = 'customer.credit.create' and target_id = '${all.idleCustomerId}'`,
    ],
  ],
  [
    '7b: all of the audit',
    'every credit has its approval event',
    () => ['delete from admin_approval_events', 'delete from audit_chains'],
  ],
  [
    '7b: the end of a chain of the audit',
    "every end of the audit's chains leads on from the log",
    () => ['delete from audit_chains'],
  ],
  [
    '7c: what a reservation has settled',
    'every reservation has settled what was debited',
    (all) => [`update reservations set settled_wei = settled_wei + 1 ${of(chat(all))}`],
  ],
  [
    '7c: a reservation let go, with its debit standing',
    'every reservation has settled what was debited',
    (all) => [`update reservations set status = 'released', settled_wei = 0 ${of(chat(all))}`],
  ],
  [
    '3b: the price of the catalogue',
    'the catalogue is as its last event made it',
    () => [`update model_entries set prompt_token_price_wei = 101 where model_id = 'm'`],
  ],
  [
    '3b: an entry of the catalogue that nobody made',
    'the catalogue is as its last event made it',
    () => [`insert into model_entries (model_id, aliases, prompt_token_price_wei) values ('cheap', '["m2"]', 1)`],
  ],
  [
    '3b: the price of a receipt',
    'every price of a receipt bears the mark of the process that billed it',
    (all) => [`update receipt_rows set price = replace(price, '100:', '99:') ${of(chat(all))}`],
  ],
  [
    '3b: the price of a receipt, with the mark of another one',
    'every price of a receipt bears the mark of the process that billed it',
    (all) => [`update receipt_rows set price = (select price from receipt_rows ${of(chat(all, 3))}) ${of(chat(all))}`],
  ],
  [
    '3b: no price',
    'every debit is what its price makes of its tokens',
    (all) => [`update receipt_rows set price = null ${of(chat(all))}`],
  ],
  [
    '3: a debit that is not the price',
    'every debit is what its price makes of its tokens',
    (all) => [
      `update ledger_rows set amount_wei = amount_wei + 5 where kind = 'debit' and receipt_hash = '${chat(all)}'`,
    ],
  ],
  [
    '3b: the price of the event',
    'every price is the one of the catalogue when the work was quoted',
    () => [
      `update admin_approval_events set metadata = jsonb_set(metadata, '{prices}', '["99", "0"]') where target_type = 'model'`,
    ],
  ],
  [
    '5b: an admin token inserted',
    'every role token bears the mark of the gateway that made it',
    () => [
      `insert into admin_tokens (token_hash, role, mark) values ('\\xabcd', 'admin', 'made up')`,
      `update admin_tokens set created_at = '2020-01-01Z' where role = 'admin'`,
    ],
  ],
  [
    '5b: a role token made an admin’s',
    'every role token bears the mark of the gateway that made it',
    () => [`update admin_tokens set role = 'admin' where role = 'viewer'`],
  ],
  [
    '5b: a role token without a mark beside those that have one',
    'every role token bears the mark of the gateway that made it',
    () => [`insert into admin_tokens (token_hash, role) values ('\\xabcd', 'viewer')`],
  ],
  [
    '5b: a named token inserted',
    namedRule,
    () => [
      `insert into admins (admin_id, name, role, token_hash, display_prefix, created_at)
        values ('adm_eve', 'Eve', 'admin', '\\xabcd', 'svc_', now() + interval '2 minutes')`,
    ],
  ],
  ['5b: a named token made an admin’s', namedRule, () => [`update admins set role = 'admin' where name = 'Grace'`]],
  ['5b: a revoked token put back', namedRule, () => [`update admins set revoked_at = null where name = 'Mallory'`]],
  [
    '5c: the policy of a customer',
    accountRule,
    (all) => [
      `update customers set gateway_policy = '{"daily_tokens": 1000000}' where customer_id = '${all.customerId}'`,
    ],
  ],
  [
    '7d: the name of a customer',
    accountRule,
    (all) => [`update customers set display_name = 'Eve' where customer_id = '${all.customerId}'`],
  ],
  [
    '7d: the status of a customer',
    accountRule,
    (all) => [`update customers set account_status = 'suspended' where customer_id = '${all.idleCustomerId}'`],
  ],
  [
    '7d: the token of a customer',
    accountRule,
    (all) => [`update customers set token_hash = '\\xabcd' where customer_id = '${all.customerId}'`],
  ],
  [
    '7d: a customer that nobody made',
    accountRule,
    () => [
      `insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed, created_at)
        values ('cus_eve', 'Eve', '\\xabcd', '\\x00', now() + interval '2 minutes')`,
    ],
  ],
  [
    '7e: the policy of a key widened',
    accountRule,
    (all) => [`update gateway_keys set model_policy = '{"allow": ["*"]}' where customer_id = '${all.customerId}'`],
  ],
  [
    '7e: a key inserted',
    accountRule,
    (all) => [
      `insert into gateway_keys (key_id, customer_id, key_hash, display_prefix, name)
        values ('key_eve', '${all.customerId}', '\\xabcd', 'svc_', 'mine')`,
    ],
  ],
  [
    '7e: a key moved to another customer',
    accountRule,
    (all) => [`update gateway_keys set customer_id = '${all.idleCustomerId}' where customer_id = '${all.customerId}'`],
  ],
  [
    '7g: the kind of the server in a receipt',
    'every receipt has the hash of its facts',
    (all) => [`update receipt_rows set runtime_kind = 'ollama' ${of(chat(all))}`],
  ],
  [
    '7h: when the work of a receipt ended',
    'every receipt has the hash of its facts',
    (all) => [`update receipt_rows set completed_at = completed_at + interval '1 second' ${of(chat(all))}`],
  ],
  [
    '7f: gross of a payout',
    'every debit is its payout, its fee and its refund',
    (all) => [`update payout_rows set gross_wei = gross_wei + 1 ${of(chat(all))}`],
  ],
]

test('§36: books that nobody touched break no rule', async () => {
  expect(await broken()).toEqual([])
})

describe('§36: an edit that an outsider made is found', () => {
  test.each([...edits])('%s: %s', async (_name, rule, edit) => {
    expect(await tamper(gateway, edit(books))).toBeGreaterThan(0)
    expect(await broken()).toContain(rule)
  })
})

/** The five chats that stand. */
const which = fc.integer({ min: 0, max: 4 })
const amount = fc.integer({ min: 1, max: 90 })
const sign = fc.constantFrom(-1, 1)
const seconds = fc.integer({ min: 1, max: 4_000_000 })
const word = fc
  .string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 12 })
  .map((text) => text.replaceAll(/[^a-z]/g, 'x'))

interface Random {
  readonly what: string
  readonly statements: (books: Books) => Promise<readonly string[]> | readonly string[]
}

/** Another price: debit, release, later balances, share, fee, reservation. */
const priced = fc.record({ at: which, by: amount, way: sign, share: fc.integer({ min: 0, max: 90 }) }).map(
  ({ at, by, way, share }): Random => ({
    what: `chat ${at} costs ${way * by} more, of which the node gets up to ${share}`,
    statements: (all) => {
      const [hash, more, node] = [chat(all, at), way * by, way * Math.min(by, share)]
      return [
        `update ledger_rows set amount_wei = amount_wei + ${more} where kind = 'debit' and receipt_hash = '${hash}'`,
        `update ledger_rows set amount_wei = amount_wei - ${more} where kind = 'release' and receipt_hash = '${hash}'`,
        `update ledger_rows l set balance_after_wei = balance_after_wei - ${more},
          reserved_after_wei = reserved_after_wei - case when l.kind = 'debit' and l.receipt_hash = '${hash}' then ${more} else 0 end
          where customer_id = '${all.customerId}' and seq >= (select seq from ledger_rows where kind = 'debit' and receipt_hash = '${hash}')`,
        `update payout_rows set amount_wei = amount_wei + ${node}, gross_wei = gross_wei + ${more} ${of(hash)}`,
        `update fee_rows set amount_wei = amount_wei + ${more - node} ${of(hash)}`,
        `update reservations set settled_wei = settled_wei + ${more} ${of(hash)}`,
        `update customers set balance_wei = balance_wei - ${more} where customer_id = '${all.customerId}'`,
      ]
    },
  }),
)

/** All that one chat has written, at another time. */
const dated = fc
  .record({
    at: which,
    by: seconds,
    way: sign,
    tables: fc.subarray(['ledger_rows', 'payout_rows', 'fee_rows', 'receipt_rows'], { minLength: 1 }),
  })
  .map(
    ({ at, by, way, tables }): Random => ({
      what: `chat ${at} is ${way * by} s later in ${tables}`,
      statements: (all) =>
        // Of a receipt alone a time within a day is within its bounds.
        [...new Set([...tables, 'payout_rows'])].map(
          (table) =>
            `update ${table} set created_at = created_at + interval '${way * by} seconds' ${of(chat(all, at))}`,
        ),
    }),
  )

/** Other facts, under their own hash, in every row that refers to it. */
const facts = fc
  .record({
    at: which,
    model: word,
    tokens: fc.integer({ min: 0, max: 1_000_000 }),
    node: fc.constantFrom('node_a', 'node_b'),
  })
  .map(
    ({ at, model, tokens, node }): Random => ({
      what: `chat ${at} was of ${model} with ${tokens} tokens on ${node}`,
      statements: async (all) => {
        const hash = chat(all, at)
        const [row] = await gateway.database.sql<{ id: string; started: Date; completed: Date }[]>`
        select request_id as id, started_at as started, completed_at as completed from receipt_rows where receipt_hash = ${hash}`
        if (row === undefined) throw new Error('there is no such receipt')
        const text = receiptText({
          issuer: 'node',
          requestId: row.id,
          jobId: null,
          kind: 'hosted_chat',
          nodeId: node,
          nodeClass: 'gpu',
          runtimeId: 'rt_1',
          runtimeKind: 'vllm',
          modelId: model,
          promptTokens: 10,
          completionTokens: tokens,
          startedAt: isoTime(new Date(row.started)),
          completedAt: isoTime(new Date(row.completed)),
          issuedAt: isoTime(new Date(row.completed)),
        })
        const told = textHash(text)
        const tables = ['ledger_rows', 'reservations', 'payout_rows', 'fee_rows']
        return [
          `update receipt_rows set receipt_hash = '${told}', model_id = '${model}', completion_tokens = ${tokens},
          node_id = '${node}', signature_ed25519 = signature_ed25519 ${of(hash)}`,
          `update payout_rows set node_id = '${node}' ${of(hash)}`,
          ...tables.map((table) => `update ${table} set receipt_hash = '${told}' ${of(hash)}`),
          `update log_entries set hash = '${told}' where hash = '${hash}'`,
        ]
      },
    }),
  )

/** Who is paid, in whichever columns say so. */
const paid = fc.record({ at: which, to: fc.integer({ min: 1, max: 2 ** 31 }), node: fc.boolean() }).map(
  ({ at, to, node }): Random => ({
    what: `chat ${at} is paid to ${to}`,
    statements: (all) => {
      const payee = `0x${to.toString(16).padStart(40, '0')}`
      const columns = `payee = '${payee}', earned_payee = '${payee}'`
      return [`update payout_rows set ${columns}${node ? ", node_id = 'node_b'" : ''} ${of(chat(all, at))}`]
    },
  }),
)

/** The newest chats as if they had never been. */
const deleted = fc.integer({ min: 1, max: 4 }).map(
  (count): Random => ({
    what: `the newest ${count} chats are gone`,
    statements: (all) => {
      const hashes = all.hashes.slice(-count).map((hash) => `'${hash}'`)
      const those = `in (${hashes.join(', ')})`
      return [
        `delete from ledger_rows where reservation_id in (select reservation_id from reservations where receipt_hash ${those})`,
        ...['reservations', 'payout_rows', 'fee_rows', 'receipt_rows'].map(
          (table) => `delete from ${table} where receipt_hash ${those}`,
        ),
        `update customers set balance_wei = balance_wei + ${1_000 * count} where customer_id = '${all.customerId}'`,
        `update payout_batches b set payout_count = p.count, total_amount_wei = p.total
          from (select count(*) as count, sum(amount_wei) as total from payout_rows where batch_id is not null) p`,
      ]
    },
  }),
)

const held = fc.record({ at: fc.integer({ min: 3, max: 4 }), early: fc.boolean(), both: fc.boolean() }).map(
  ({ at, early, both }): Random => ({
    what: `chat ${at} is on hold${early ? ' from the beginning' : ''}${both ? ', and its receipt' : ''}`,
    statements: (all) => [
      `update payout_rows set held = true, earned_held = ${early} ${of(chat(all, at))}`,
      ...(both ? [`update receipt_rows set status = 'held' ${of(chat(all, at))}`] : []),
    ],
  }),
)

/** A credit, with a copied approval event and the balances after it. */
const credited = fc.record({ by: amount, way: sign, events: fc.boolean() }).map(
  ({ by, way, events }): Random => ({
    what: `a credit is ${way * by} larger`,
    statements: ({ idleCustomerId: id }) => [
      `update ledger_rows set amount_wei = amount_wei + ${way * by}, balance_after_wei = balance_after_wei + ${way * by} where customer_id = '${id}'`,
      `update customers set balance_wei = balance_wei + ${way * by} where customer_id = '${id}'`,
      ...(events
        ? [
            `update admin_approval_events set metadata = jsonb_set(metadata::jsonb, '{amount_wei}', to_jsonb('${777 + way * by}'::text))
              where target_id = '${id}' and action = 'customer.credit.create'`,
          ]
        : []),
    ],
  }),
)

const settled = fc
  .record({
    byte: fc.integer({ min: 16, max: 255 }),
    columns: fc.subarray(['submitted_tx_hash', 'settlement_block_hash', 'merkle_root'], { minLength: 1 }),
  })
  .map(
    ({ byte, columns }): Random => ({
      what: `${columns} of the batch`,
      statements: () =>
        columns.map((column) => `update payout_batches set ${column} = '0x${byte.toString(16).repeat(32)}'`),
    }),
  )

test('§36: each of 40 random edits that follow through to every row is found by the books and the log alone', async () => {
  const random = fc.oneof(priced, dated, facts, paid, deleted, held, credited, settled)
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(random, async ({ what, statements }) => {
      seen.add(what.replaceAll(/[0-9-]+/g, 'n'))
      expect([what, await tamper(gateway, await statements(books))]).not.toEqual([what, 0])
      expect([what, (await broken()).length > 0]).toEqual([what, true])
      await undo(gateway)
    }),
    { numRuns: 40, endOnFailure: true },
  )
  expect(seen.size).toBeGreaterThan(3)
})
