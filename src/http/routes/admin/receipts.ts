import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { adminRoutes } from '../../../actions/registry.ts'
import { brand } from '../../../brand.ts'
import { ReasonBody } from '../../../protocol/wire/admin/admin.ts'
import { ReceiptDecision } from '../../../protocol/wire/money/receipt.ts'
import type { HttpContext } from '../../frame/context.ts'
import { mayRead } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'

const params = Type.Object({ receipt_hash: Type.String({ pattern: '^0x[0-9a-f]{64}$' }) })
const decisions = [
  { action: 'receipt.release', status: 'accepted', summary: 'Release a receipt that is on hold: its node is paid' },
  {
    action: 'receipt.reject',
    status: 'rejected',
    summary: 'Reject a receipt that is on hold: its node is never paid, and its customer has the debit back',
  },
] as const

const decisionRoute = (context: HttpContext, { action, status, summary }: (typeof decisions)[number]) =>
  new Elysia().use(admin(context)).post(
    adminRoutes[action].path,
    async ({ body: { audit }, params: { receipt_hash } }) => {
      const refundedWei = await context.gateway.settlement.by(audit).decide(receipt_hash, status)
      const object = `${brand}.admin.receipt` as const
      return { object, receipt_hash, status, refunded_wei: refundedWei.toString() }
    },
    {
      action,
      params,
      response: { 200: ReceiptDecision },
      ...mayRead(ReasonBody),
      detail: describe({ summary, tags: ['Money (extension)'] }),
    },
  )

/** Receipts that are on hold because the node reported implausible usage (§5, §23). */
export const receiptRoutes = (context: HttpContext) =>
  new Elysia().use(decisionRoute(context, decisions[0])).use(decisionRoute(context, decisions[1]))
