import { brand } from '../../brand.ts'
import { brokenRules } from '../../machines/rules/books.ts'
import { LedgerProof } from '../../protocol/wire/money/money.ts'
import { isoTime } from '../../time.ts'
import { report } from './report.ts'

/** The books balance, or which rule they break (§23). */
export const ledgerProof = report({
  action: 'ledger.proof.read',
  tag: 'Money (extension)',
  summary: 'Prove that the books balance',
  description:
    'Credits + refunds = balances + debits, debits = payouts + fees + refunds, reserved = open reservations. Reads all entries.',
  query: {},
  response: LedgerProof,
  read: async ({ gateway }, { nowMs }) => {
    const books = await gateway.ledger.books()
    const broken = brokenRules(books)
    return {
      object: `${brand}.admin.ledger_proof` as const,
      generated_at: isoTime(nowMs),
      balanced: broken.length === 0,
      broken_rules: [...broken],
      credits_wei: books.creditsWei.toString(),
      balances_wei: books.balancesWei.toString(),
      debits_wei: books.debitsWei.toString(),
      refunds_wei: books.refundsWei.toString(),
      payouts_wei: books.payoutsWei.toString(),
      fees_wei: books.feesWei.toString(),
      reserved_wei: books.reservedWei.toString(),
      open_reservations_wei: books.openReservationsWei.toString(),
      entries: books.entries,
      customers_off: books.customersOff,
      entries_off: books.entriesOff,
    }
  },
})
