import { brand } from '../../brand.ts'
import { PayoutBatchCreate, PayoutBatchCreated } from '../../protocol/wire/money/money.ts'
import { defineAction } from '../frame/define-action.ts'
import { settles, tag } from './settlement.ts'

export const createBatch = defineAction({
  name: 'payout.batch.create',
  at: 'POST /v1/admin/payout-batches',
  policy: { ...settles('payout_batch'), dryRun: true },
  summary: 'Put all pending payouts into batches now',
  description: 'Takes at most 1,000 payouts of any age. `dry_run` changes nothing.',
  tag,
  body: PayoutBatchCreate,
  mayBeEmpty: true,
  result: PayoutBatchCreated,
  statuses: [200, 201],
  run: async ({ gateway, views, audit, body: { dry_run: dryRun = false }, head }) => {
    const { batch, ...built } = await gateway.settlement.by(audit).build({ dryRun })
    if (batch !== null) head.status = 201
    const made = dryRun ? 'dry_run' : 'created'
    return {
      object: `${brand}.admin.payout_batch`,
      status: built.payoutCount === 0 ? 'nothing_pending' : made,
      payout_count: built.payoutCount,
      total_amount_wei: built.totalAmountWei.toString(),
      without_address: built.withoutAddress,
      merkle_root: built.merkleRoot,
      batch: batch === null ? null : views.adminBatchView(batch),
    } as const
  },
  command: {
    words: 'payouts create',
    about: 'Put all pending payouts into batches now',
    options: { 'dry-run': { kind: 'flag', about: 'Only show what would happen' } },
    after: 'list',
    prints: (made, print) =>
      print.fields([
        ['Result', made.status.replaceAll('_', ' ')],
        ['Batch', made.batch?.batch_id],
        ['Payouts', made.payout_count],
        ['Amount', `${made.total_amount_wei} wei`],
        ['Without an address', made.without_address],
        ['Root', made.merkle_root],
      ]),
  },
  form: {
    on: 'payouts',
    verb: 'Pay out now',
    title: 'Pay out now',
    about:
      'Puts all pending payouts into batches, at most 1,000 at once, without waiting until they are old or large enough. A batch goes to the chain by itself and cannot be called back.',
    confirm: 'pay out',
    labels: {},
    done: 'The pending payouts are in batches.',
  },
})
