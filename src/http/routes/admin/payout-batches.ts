import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { listBatches } from '../../../db/queries/money/public-settlement.ts'
import { PayoutBatchList, PayoutProofList } from '../../../protocol/wire/money/money.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { adminBatchView, payoutProofView } from '../../views/money.ts'

const tags = ['Money (extension)']
const params = Type.Object({ batch_id: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }) })
const query = { limit: limitOf(100, 1_000) } as const

const collectionRoutes = (context: HttpContext) => {
  const { gateway } = context
  return new Elysia().use(admin(context)).get(
    '/v1/admin/payout-batches',
    async ({ query: { limit } }) => {
      const batches = (await listBatches(gateway.db, limit)).map(adminBatchView)
      return {
        object: `${brand}.admin.payout_batch_list` as const,
        generated_at: isoTime(Date.now()),
        count: batches.length,
        settlement_configured: gateway.settlement.configured,
        batches,
      }
    },
    {
      action: 'payout.batch.list',
      response: { 200: PayoutBatchList },
      ...asks(query),
      detail: describe({ summary: 'List payout batches, newest first', tags }),
    },
  )
}

const itemRoutes = (context: HttpContext) => {
  const { settlement } = context.gateway
  return new Elysia().use(admin(context)).get(
    '/v1/admin/payout-batches/:batch_id/proofs',
    async ({ params: { batch_id } }) => {
      const batch = await settlement.batch(batch_id)
      const proofs = (await settlement.proofs(batch_id)).map((proof) => payoutProofView(batch, proof))
      return {
        object: `${brand}.admin.payout_proof_list` as const,
        generated_at: isoTime(Date.now()),
        count: proofs.length,
        proofs,
      }
    },
    {
      action: 'payout.batch.proofs',
      params,
      response: { 200: PayoutProofList },
      detail: describe({ summary: 'Proofs by which the nodes of a batch claim their payouts', tags }),
    },
  )
}

/** Payout batches (§23). */
export const payoutBatchRoutes = (context: HttpContext) =>
  new Elysia().use(collectionRoutes(context)).use(itemRoutes(context))
