import type { CountedKind } from '../../../protocol/money/kinds.ts'
import { enteringKinds, followingKinds, sumField, sumTitle } from '../../../protocol/money/moves.ts'
import type { BooksReport } from '../../../protocol/wire/money/log.ts'
import type { LedgerProof } from '../../../protocol/wire/money/money.ts'
import { action } from '../../frame/action.ts'
import { fields } from '../../frame/table.ts'

/** The sums of these kinds, a line each. */
const sums = (kinds: readonly CountedKind[], proof: LedgerProof) =>
  kinds.map((kind) => [sumTitle(kind), `${proof[sumField(kind)]} wei`] as const)

export const books = action({
  about: 'Prove that the books balance, row by row and against the public log. The command fails if they do not',
  options: {},
  run: async ({ json }, session) => {
    const proof = await session.gateway().admin<LedgerProof>({ path: '/v1/admin/ledger/proof' })
    const check = await session.gateway().admin<BooksReport>({ path: '/v1/admin/ledger/check' })
    session.show(json, { ...proof, check }, ({ check: rows, ...body }) =>
      fields(session.terminal, [
        ['Books', body.balanced ? 'balance' : 'DO NOT BALANCE'],
        ...body.broken_rules.map((rule) => ['Broken', rule] as const),
        ...rows.faults.map(({ rule, subject }) => ['Broken', `${rule}: ${subject}`] as const),
        ['Rows', rows.sound ? `${rows.receipts} receipts, ${rows.log_entries} log entries hold` : 'DO NOT HOLD'],
        ...(rows.unsigned_receipts
          ? [['Unsigned', `${rows.unsigned_receipts} receipts from before nodes signed`] as const]
          : []),
        ...sums(enteringKinds, body),
        ['Balances', `${body.balances_wei} wei`],
        ...sums(followingKinds, body),
        ['Payouts', `${body.payouts_wei} wei`],
        ['Fees', `${body.fees_wei} wei`],
        ['Reserved', `${body.reserved_wei} wei`],
        ['Open', `${body.open_reservations_wei} wei`],
        ['Leased', `${body.leased_wei} wei`],
        ['Entries', body.entries],
      ]),
    )
    return proof.balanced && check.sound ? undefined : 1
  },
})
