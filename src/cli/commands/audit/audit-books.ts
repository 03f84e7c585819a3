import type { LedgerProof } from '../../../protocol/wire/money/money.ts'
import { action } from '../../frame/action.ts'
import { fields } from '../../frame/table.ts'

export const books = action({
  about: 'Prove that the books balance. The command fails if they do not',
  options: {},
  run: async ({ json }, session) => {
    const proof = await session.gateway().admin<LedgerProof>({ path: '/v1/admin/ledger/proof' })
    session.show(json, proof, (body) =>
      fields(session.terminal, [
        ['Books', body.balanced ? 'balance' : 'DO NOT BALANCE'],
        ...body.broken_rules.map((rule) => ['Broken', rule] as const),
        ['Credits', `${body.credits_wei} wei`],
        ['Balances', `${body.balances_wei} wei`],
        ['Debits', `${body.debits_wei} wei`],
        ['Payouts', `${body.payouts_wei} wei`],
        ['Fees', `${body.fees_wei} wei`],
        ['Reserved', `${body.reserved_wei} wei`],
        ['Open', `${body.open_reservations_wei} wei`],
        ['Entries', body.entries],
      ]),
    )
    return proof.balanced ? undefined : 1
  },
})
