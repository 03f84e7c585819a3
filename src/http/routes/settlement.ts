import { Elysia } from 'elysia'
import { publicBatchesMax, publicReceiptsMax, type SettlementView } from '../../actors/money/settlement-view.ts'
import { brand, receiptVersion } from '../../brand.ts'
import { settledEventTopic } from '../../protocol/receipts/settlement-contract.ts'
import { PublicSettlement, type settlementStatuses } from '../../protocol/wire/money/money.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { workKinds } from '../../protocol/wire/work-kinds.ts'
import type { Config } from '../../settings/config.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { asks } from '../frame/query.ts'
import { describe } from '../frame/route-table.ts'
import { publicReads } from '../plugins/rate-limit.ts'
import { batchView, instant } from '../views/money.ts'

const cache = 'public, max-age=15'
const query = { limit: limitOf(50, publicReceiptsMax), batch_limit: limitOf(20, publicBatchesMax) } as const
const basisPoints = 10_000

const latest = (dates: readonly (Date | null)[]): Date | null =>
  dates.reduce((last, date) => (last === null || (date !== null && date > last) ? date : last), null)
const sum = (rows: readonly { readonly count: number }[]) => rows.reduce((total, { count }) => total + count, 0)

function payoutSummary({ payoutCounts, latestFinalizedPayoutAt }: SettlementView) {
  const of = (status: (typeof settlementStatuses)[number], kind?: string) =>
    sum(payoutCounts.filter((row) => row.status === status && (kind === undefined || row.kind === kind)))
  return {
    total_payouts: sum(payoutCounts),
    pending_payouts: of('pending'),
    batched_payouts: of('batched'),
    submitting_payouts: of('submitting'),
    submitted_payouts: of('submitted'),
    finalized_payouts: of('finalized'),
    latest_payout_at: instant(latest(payoutCounts.map(({ latestAt }) => latestAt))),
    latest_finalized_payout_at: instant(latestFinalizedPayoutAt),
    by_kind: workKinds
      .map((kind) => ({ kind, rows: payoutCounts.filter((row) => row.kind === kind) }))
      .filter(({ rows }) => rows.length > 0)
      .map(({ kind, rows }) => ({
        kind,
        total_payouts: sum(rows),
        pending_payouts: of('pending', kind),
        finalized_payouts: of('finalized', kind),
        latest_payout_at: instant(latest(rows.map(({ latestAt }) => latestAt))),
      })),
  }
}

function batchSummary({ batchCounts }: SettlementView) {
  const of = (status: string) => sum(batchCounts.filter((row) => row.status === status))
  return {
    total_batches: sum(batchCounts),
    created_batches: of('created'),
    submitting_batches: of('submitting'),
    submitted_batches: of('submitted'),
    completed_batches: of('completed'),
    latest_batch_at: instant(latest(batchCounts.map(({ latestAt }) => latestAt))),
    latest_finalized_batch_at: instant(latest(batchCounts.map(({ finalizedAt }) => finalizedAt))),
  }
}

/** Empty strings if no blockchain is configured. The URL is never the RPC that the gateway itself uses. */
function chainView(config: Config) {
  const configured = config.SVC_CHAIN_CONTRACT !== null
  return {
    network_name: config.SVC_CHAIN_NAME ?? '',
    chain_id: configured ? String(config.SVC_CHAIN_ID) : '',
    rpc_url: config.SVC_PUBLIC_RPC_URL ?? '',
    explorer_url: config.SVC_CHAIN_EXPLORER ?? '',
    contract_address: config.SVC_CHAIN_CONTRACT ?? '',
    event_topic: configured ? settledEventTopic : '',
  }
}

const protocolView = ({ SVC_PROTOCOL_FEE_BPS: feeBps }: Config) => ({
  name: brand as typeof brand,
  version: '1' as const,
  receipt_version: receiptVersion,
  receipt_hash: 'keccak256-jcs' as const,
  merkle: 'oz-standard-v1' as const,
  leaf_encoding: ['bytes32', 'address', 'uint256'],
  node_share_bps: basisPoints - feeBps,
  protocol_fee_bps: feeBps,
})

const receiptView = (row: SettlementView['receipts'][number]) => ({
  receipt_hash: row.receiptHash,
  node_id: row.nodeId,
  job_id: row.jobId,
  node_class: row.nodeClass,
  model_id: row.modelId,
  status: row.status,
  received_at: isoTime(row.receivedAt),
  batch_id: row.batchId,
})

/** Endpoint 9: billed work and what became of it. No customer, no key, no route. */
export const settlementRoutes = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'any')).get(
    '/v1/public/settlement',
    async ({ query: { limit, batch_limit }, set }) => {
      const { gateway } = context
      const view = await gateway.settlementView()
      set.headers['cache-control'] = cache
      return {
        protocol: protocolView(gateway.config),
        payout_settlement: chainView(gateway.config),
        summary: {
          accepted_receipts: view.receiptCounts.accepted,
          pending_receipts: view.pendingReceipts,
          pending_root: view.pendingRoot,
          latest_receipt_at: instant(view.receiptCounts.latestAt),
          settlement_ready: gateway.settlement.ready(),
          payouts: payoutSummary(view),
          payout_batches: batchSummary(view),
        },
        receipts: view.receipts.slice(0, limit).map(receiptView),
        payout_batches: view.batches.slice(0, batch_limit).map(batchView),
      }
    },
    {
      response: { 200: PublicSettlement },
      ...asks(query),
      detail: {
        ...describe({
          summary: 'Settlement state',
          description: 'Receipts of billed work, payout batches, and the blockchain on which they settle.',
          tags: ['Settlement'],
        }),
        security: [],
      },
    },
  )
