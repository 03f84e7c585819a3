import { brand } from '../../brand.ts'
import { ReceiptDecision } from '../../protocol/wire/money/receipt.ts'
import { defineAction } from '../frame/define-action.ts'
import type { ActionForm } from '../frame/form.ts'
import type { Policy } from '../frame/policy.ts'

export const tag = 'Money (extension)'

export const settles = (target: Policy['target']): Policy => ({
  role: 'admin',
  category: 'settlement',
  target,
  requirement: 'second_approver',
})

/** What becomes of a receipt that is on hold because its node reported implausible usage (§5, §23). */
export const decideReceipt = <const V extends 'release' | 'reject'>(
  verb: V,
  status: 'accepted' | 'rejected',
  summary: string,
  {
    asks,
    ...form
  }: Pick<ActionForm, 'verb' | 'title' | 'about' | 'done' | 'confirm' | 'destroys'> & { readonly asks: string },
) =>
  defineAction({
    name: `receipt.${verb}`,
    at: `POST /v1/admin/receipts/:receipt_hash/${verb}`,
    policy: settles('receipt'),
    summary,
    tag,
    result: ReceiptDecision,
    command: {
      words: `payouts ${verb}`,
      about: summary,
      operands: [{ name: 'RECEIPT', is: 'receipt_hash', about: 'The hash of the receipt, as `payouts held` shows it' }],
      after: 'held',
      asks,
      prints: ({ refunded_wei: refunded }, print) =>
        print.fields([
          ['Receipt', status],
          ['Back to the customer', `${refunded} wei`],
        ]),
    },
    form: { on: 'receipt', when: { status: ['held'] }, ...form },
    run: async ({ gateway, audit, params: { receipt_hash } }) => {
      const refundedWei = await gateway.settlement.by(audit).decide(receipt_hash, status)
      return { object: `${brand}.admin.receipt`, receipt_hash, status, refunded_wei: refundedWei.toString() } as const
    },
  })
