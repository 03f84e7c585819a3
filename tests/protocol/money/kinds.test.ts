import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { functionFiles } from '../../../scripts/sql-functions.ts'
import { type AdminAction, adminRoute } from '../../../src/actions/registry.ts'
import { canonicalJson } from '../../../src/protocol/json/canonical-json.ts'
import { logEntryKinds } from '../../../src/protocol/log/log-entry.ts'
import { type Account, approvedKinds, kindNames, kindOf, ledgerKinds } from '../../../src/protocol/money/kinds.ts'
import { loggedFacts, loggedKinds } from '../../../src/protocol/money/logged.ts'
import { balanceAccounts, changeOf, countedKinds, equation, workAccounts } from '../../../src/protocol/money/moves.ts'

const root = join(import.meta.dir, '../../..')
const all: readonly Account[] = ['outside', 'customer', 'reserved', 'earnings', 'held', 'fees']

test('§13: each kind has two sides, which share no account, so that all accounts together stay zero', () => {
  for (const kind of kindNames) {
    const { debits, credits } = kindOf(kind)
    expect([kind, debits.filter((account) => credits.includes(account))]).toEqual([kind, []])
    expect([kind, changeOf(kind, all)]).toEqual([kind, 0])
    // A side lies within the balances, or within what was paid for work, or outside: never across.
    for (const side of [debits, credits]) {
      const groups = [balanceAccounts, workAccounts, ['outside']].filter((group) =>
        side.some((account) => group.includes(account)),
      )
      expect([kind, groups.length]).toEqual([kind, 1])
    }
  }
})

/** As the specification has it, so that the table cannot agree with itself. */
test('§13: what each kind does to the balance and to the reserved part', () => {
  const moves = kindNames.map((kind) => [kind, changeOf(kind, balanceAccounts), changeOf(kind, ['reserved'])])
  expect(moves).toEqual([
    ['admin_credit', 1, 0],
    ['reserve', 0, 1],
    ['release', 0, -1],
    ['debit', -1, -1],
    ['refund', 1, 0],
    ['admin_debit', -1, 0],
  ])
})

test('§13: a kind has its sum in the books exactly where it changes a balance, and the equations name them', () => {
  const changing = kindNames.filter((kind) => changeOf(kind, balanceAccounts) !== 0)
  expect(changing).toEqual([...countedKinds])
  expect(kindNames.filter((kind) => changeOf(kind, workAccounts) !== 0 && !changing.includes(kind))).toEqual([])
  expect(equation(balanceAccounts, ['balances'])).toBe('credits + refunds = balances + debits + admin debits')
  expect(equation(workAccounts, ['payouts', 'fees'])).toBe('debits = payouts + fees + refunds')
})

test('§16: each action that a kind names is an admin route that changes what its entries refer to', () => {
  const actions: readonly (readonly [AdminAction, boolean])[] = approvedKinds.map((kind) => [
    ledgerKinds[kind].action,
    kindOf(kind).refersTo.includes('receipt'),
  ])
  expect(actions.map(([action]) => adminRoute(action).targetType as string)).toEqual(
    actions.map(([, receipt]) => (receipt ? 'receipt' : 'customer')),
  )
})

test('§31: each entry of the log says what docs/protocol.md says that it does', () => {
  const text = readFileSync(join(root, 'docs/protocol.md'), 'utf8')
  for (const kind of loggedKinds) {
    const { entry } = ledgerKinds[kind].log
    expect(logEntryKinds).toContain(entry)
    const row = new RegExp(
      `^\\| \`${entry}\` \\| SHA-256 of the JCS form of \`\\{v:"([\\w-]+)", ([\\w, ]+)\\}\``,
      'm',
    ).exec(text)
    const facts = loggedFacts({
      kind,
      entryId: 'led_1',
      customerId: 'cus_1',
      amountWei: '1',
      reason: null,
      receiptHash: '0x1',
      createdAt: new Date(0),
    })
    expect([entry, ...Object.keys(facts).sort()]).toEqual([entry, ...['v', ...(row?.[2] ?? '').split(', ')].sort()])
    expect(canonicalJson(facts)).toContain(`"v":"${row?.[1]}"`)
  }
})

test('§13: the SQL functions write kinds of the table, and those that nobody decides on', () => {
  const written = functionFiles()
    .filter(({ text }) => text.includes('INTO ledger_rows'))
    .flatMap(({ text }) =>
      [...text.matchAll(/(?:customers?\[1\]|customer|debit|release), '(\w+)', /g)].map(([, kind]) => kind),
    )
  expect([...new Set(written)].sort()).toEqual(kindNames.filter((kind) => kindOf(kind).action === null).sort())
})
