import { afterEach, expect, test } from 'bun:test'
import { readBooks } from '../../../src/db/queries/money/ledger-proof.ts'
import { brokenRules } from '../../../src/machines/rules/books.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { charges, commit, groupsOf, reserved } from '../../support/money/groups.ts'
import { tamper } from '../../support/money/tampering.ts'
import { fixture } from '../../support/run/fixture.ts'

const kept = ['customers', 'charge_groups', 'payout_rows', 'ledger_rows', 'reservations', 'receipt_rows'] as const
const identity = new Set(['ledger_rows', 'receipt_rows'])

let customerId = ''
/** The last numbers of the two groups; of the second the shares are rows. */
let [open, moved] = ['', '']
const gateway = await fixture(startTestGateway(stillLog))
const { database } = gateway
customerId = (await newAccount(gateway, '100000')).id
for (const id of ['node_0', 'node_1']) {
  await database.sql`insert into nodes (node_id, customer_id, name, kind, payout_address, visibility, privacy_class, node_class)
      values (${id}, ${customerId}, ${id}, 'agent', '0x00000000000000000000000000000000000a0001', 'public', 'public', 'gpu')`
}
for (const count of [6, 5]) await commit(database, await reserved(database, charges(customerId, count)))
;[open = '', moved = ''] = (await groupsOf(database, customerId)).map(({ seq }) => seq)
await database.sql`select charge_shares_move(array[${moved}::bigint])`
await gateway.gateway.sequencer.catchUp({ heads: true })
for (const table of kept) await database.sql.unsafe(`create table kept_${table} as table ${table}`)
// Whoever owns the database drops what is in the way.
await database.sql`alter table charge_groups drop constraint charge_groups_whole`
afterEach(() =>
  tamper(
    gateway,
    kept.flatMap((table) => [
      `delete from ${table}`,
      `insert into ${table} ${identity.has(table) ? 'overriding system value' : ''} select * from kept_${table}`,
    ]),
  ),
)

const broken = async () => {
  const { faults } = await gateway.gateway.checkBooks()
  return [...faults.map(({ rule }) => rule as string), ...brokenRules(await readBooks(gateway.database.db))]
}
const set = (changes: string, seq = open) => `update charge_groups set ${changes} where last_seq = ${seq}`
const plus = (column: string, by: string, at = 2) => `${column}[${at}] = ${column}[${at}] + ${by}`
const raise = (wei: number) =>
  `update customers set balance_wei = balance_wei + ${wei} where customer_id = '${customerId}'`
const arrays =
  `debit_seq release_seq reservation_ids debit_ids release_ids payout_ids fee_ids node_ids kinds payees charged_wei share_wei
  fee_wei released_wei balance_after_wei reserved_after_wei`.split(/\s+/)

const inLog = 'the ledger is as the log holds it'
const adds = 'every group of charges adds up'
const shares = 'every share of a group is the payout that was made of it'

test('§31: untouched groups break no rule', async () => {
  const [{ groups } = { groups: 0 }] = await gateway.database.sql`select count(*)::int as groups from charge_groups`
  expect([groups, await broken()]).toEqual([2, []])
})

test.each([
  ['a balance within it', inLog, () => [set(plus('balance_after_wei', '1'))]],
  ['a reserve within it', inLog, () => [set(plus('reserved_after_wei', '1'))]],
  [
    'a charge that is less by a share, with all that follows from it',
    inLog,
    () => [
      set(
        `charged_wei[6] = charged_wei[6] - 5, share_wei[6] = share_wei[6] - 5, released_wei[6] = released_wei[6] + 5,
        balance_after_wei[6] = balance_after_wei[6] + 5, charged_total = charged_total - 5, shares_total = shares_total - 5`,
      ),
      raise(5),
    ],
  ],
  [
    'a share raised at the cost of the fee',
    inLog,
    () => [
      set(
        `${plus('share_wei', '1')}, ${plus('fee_wei', '-1')}, shares_total = shares_total + 1, fees_total = fees_total - 1`,
      ),
    ],
  ],
  [
    'its last charge taken out',
    inLog,
    () => [
      set(
        `${arrays.map((name) => `${name} = ${name}[1:5]`).join(', ')}, rows = 5, hashes = substring(hashes for 160),
        charged_total = charged_total - charged_wei[6], shares_total = shares_total - share_wei[6], fees_total = fees_total - fee_wei[6]`,
      ),
    ],
  ],
  ['a group removed', inLog, () => [`delete from charge_groups where last_seq = ${open}`]],
  ['its time', inLog, () => [set("created_at = created_at + interval '1 hour'")]],
  ['whom a share is for', inLog, () => [set("payees[3] = '0x000000000000000000000000000000000000dead'")]],
  ['an id of an entry', inLog, () => [set("debit_ids[2] = 'led_other'")]],
  ['the node of a share', 'every payout is for the node of its receipt', () => [set("node_ids[2] = 'node_0'")]],
  [
    'a receipt of it',
    'every debit has its billed receipt',
    () => [set("hashes = overlay(hashes placing '\\xeeeeeeee' from 3)")],
  ],
  ['a total of it', adds, () => [set('charged_total = charged_total + 1')]],
  ['a fee of it', adds, () => [set(plus('fee_wei', '1'))]],
  [
    'a charge that is there twice',
    'every entry of a reservation is there once',
    () => [
      `create temp table twice on commit drop as select * from charge_groups where last_seq = ${open}`,
      "update twice set last_seq = last_seq + 1000, first_seq = first_seq + 1000, group_id = 'led_twice'",
      'insert into charge_groups select * from twice',
    ],
  ],
  [
    'a payout that was made of a share',
    shares,
    () => [`update payout_rows set amount_wei = amount_wei + 1, gross_wei = gross_wei + 1`],
  ],
  ['the node of such a payout', shares, () => ["update payout_rows set node_id = 'node_1'"]],
  ['whom such a payout is for', shares, () => ["update payout_rows set payee = '0xdead', earned_payee = '0xdead'"]],
  ['such a payout removed', shares, () => ['delete from payout_rows where ctid = (select min(ctid) from payout_rows)']],
  ['shares that are in the group and rows, too', shares, () => [set('shares_moved = false', moved)]],
  ['shares that are nowhere', shares, () => [set('shares_moved = true')]],
] as readonly (readonly [string, string, () => readonly string[]])[])(
  '§31: a group of charges is changed in the database, and it is found: %s',
  async (_what, rule, edit) => {
    expect(await tamper(gateway, edit())).toBeGreaterThan(0)
    expect(await broken()).toContain(rule)
  },
)
