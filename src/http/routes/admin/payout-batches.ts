import { adminObject } from '../../../brand.ts'
import { listBatches } from '../../../db/queries/money/public-settlement.ts'
import { PayoutBatchList, PayoutProofList } from '../../../protocol/wire/money/money.ts'
import { isoTime } from '../../../time.ts'
import { limitOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { adminBatchView, payoutProofView } from '../../views/money.ts'

const tag = 'Money (extension)'

/** Payout batches (§23). */
export const batchList = report({
  action: 'payout.batch.list',
  tag,
  summary: 'List payout batches, newest first',
  query: { limit: limitOf(100, 1_000) },
  response: PayoutBatchList,
  read: async ({ gateway }, { query: { limit }, nowMs }) => {
    const batches = (await listBatches(gateway.db, limit)).map(adminBatchView)
    return {
      object: `${adminObject}payout_batch_list` as const,
      generated_at: isoTime(nowMs),
      count: batches.length,
      settlement_configured: gateway.settlement.configured,
      batches,
    }
  },
})

export const batchProofs = report({
  action: 'payout.batch.proofs',
  tag,
  summary: 'Proofs by which the nodes of a batch claim their payouts',
  query: {},
  response: PayoutProofList,
  read: async ({ gateway: { settlement } }, { params: { batch_id = '' }, nowMs }) => {
    const batch = await settlement.batch(batch_id)
    const proofs = (await settlement.proofs(batch_id)).map((proof) => payoutProofView(batch, proof))
    return listOf('payout_proof_list', 'proofs', proofs, nowMs)
  },
})
