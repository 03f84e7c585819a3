import { brand } from '../../brand.ts'
import { balanceRules, brokenRules } from '../../machines/rules/books.ts'
import type { CountedKind } from '../../protocol/money/kinds.ts'
import { enteringKinds, followingKinds, sumFields } from '../../protocol/money/moves.ts'
import { LedgerProof } from '../../protocol/wire/money/money.ts'
import { isoTime } from '../../time.ts'
import { report } from './report.ts'

/** "Credits + refunds = balances + debits, …, reserved = open reservations." */
const sumRules = `${balanceRules.filter((rule) => rule.includes(' = ')).join(', ')}.`.replace(/^./, (first) =>
  first.toUpperCase(),
)

/** The books balance, or which rule they break (§23). */
export const ledgerProof = report({
  action: 'ledger.proof.read',
  tag: 'Money (extension)',
  summary: 'Prove that the books balance',
  description: `${sumRules} Reads all entries.`,
  query: {},
  response: LedgerProof,
  read: async ({ gateway }, { nowMs }) => {
    const books = await gateway.ledger.books()
    const broken = brokenRules(books)
    const sum = (kind: CountedKind) => books.sums[kind].toString()
    return {
      object: `${brand}.admin.ledger_proof` as const,
      generated_at: isoTime(nowMs),
      balanced: broken.length === 0,
      broken_rules: [...broken],
      ...sumFields(enteringKinds, sum),
      balances_wei: books.balancesWei.toString(),
      ...sumFields(followingKinds, sum),
      payouts_wei: books.payoutsWei.toString(),
      fees_wei: books.feesWei.toString(),
      reserved_wei: books.reservedWei.toString(),
      open_reservations_wei: books.openReservationsWei.toString(),
      leased_wei: books.leasedWei.toString(),
      leases_wei: books.leasesWei.toString(),
      entries: books.entries,
      customers_off: books.customersOff,
      entries_off: books.entriesOff,
    }
  },
})
