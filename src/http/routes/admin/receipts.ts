import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { ReasonBody } from '../../../protocol/wire/admin.ts'
import { ReceiptDecision } from '../../../protocol/wire/money.ts'
import { readOptionalBody } from '../../admin-input.ts'
import type { HttpContext } from '../../exchange.ts'
import { admin } from '../../plugins/admin.ts'
import { describe } from '../../route-table.ts'

const params = Type.Object({ receipt_hash: Type.String({ pattern: '^0x[0-9a-f]{64}$' }) })
const decisions = [
  { verb: 'release', status: 'accepted', summary: 'Release a held receipt: its node is paid' },
  { verb: 'reject', status: 'rejected', summary: 'Reject a held receipt: its node is never paid' },
] as const

const decisionRoute = (context: HttpContext, { verb, status, summary }: (typeof decisions)[number]) =>
  new Elysia().use(admin(context)).post(
    `/v1/admin/receipts/:receipt_hash/${verb}`,
    async ({ params: { receipt_hash }, request }) => {
      await readOptionalBody(request, ReasonBody)
      await context.gateway.settlement.decide(receipt_hash, status)
      return { object: `${brand}.admin.receipt` as const, receipt_hash, status }
    },
    {
      role: 'admin',
      params,
      response: { 200: ReceiptDecision },
      detail: describe({ summary, tags: ['Money (extension)'], optionalBody: ReasonBody }),
    },
  )

/** Receipts held because a node said more than can be (decisions §5, §23). */
export const receiptRoutes = (context: HttpContext) =>
  new Elysia().use(decisionRoute(context, decisions[0])).use(decisionRoute(context, decisions[1]))
