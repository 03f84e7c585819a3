import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { brand } from '../../brand.ts'
import { PayoutLeaves } from '../../protocol/wire/money/money.ts'
import type { HttpContext } from '../frame/context.ts'
import { describe } from '../frame/route-table.ts'
import { publicReads } from '../plugins/rate-limit.ts'
import { payoutProofView } from '../views/money.ts'

/** A batch never changes once it is made. */
const cache = 'public, max-age=300'

/** Anybody: all leaves of a batch with their proofs, so that no payee needs the operator to claim (§31). */
export const publicPayoutRoutes = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    '/v1/public/payout-batches/:batch_id/leaves',
    async ({ params: { batch_id }, set }) => {
      const { settlement } = context.gateway
      const batch = await settlement.batch(batch_id)
      const proofs = (await settlement.proofs(batch_id)).map((proof) => payoutProofView(batch, proof))
      set.headers['cache-control'] = cache
      return {
        object: `${brand}.payout_leaves` as const,
        batch_id,
        merkle_root: batch.merkleRoot,
        payout_count: batch.payoutCount,
        total_amount_wei: batch.totalAmountWei.toString(),
        proofs,
      }
    },
    {
      params: Type.Object({ batch_id: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }) }),
      response: { 200: PayoutLeaves },
      detail: {
        ...describe({
          summary: 'The leaves of a payout batch, with their proofs',
          description:
            'Everything that a claim takes. Anyone who keeps this answer can claim for every payee of the batch.',
          tags: ['Money (extension)'],
        }),
        security: [],
      },
    },
  )
